// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 that has cuInit only.
int cuInit(unsigned flags) __attribute__((visibility("default")));
int cuInit(unsigned flags)
{
    return (int)flags;
}
