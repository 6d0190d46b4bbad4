// SPDX-License-Identifier: Apache-2.0
// Keeps a layer without sources buildable.
typedef int kolo_empty_translation_unit;
