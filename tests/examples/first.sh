# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that have no time for all of Fashion-MNIST.
# first_pictures FROM TO NAME COUNT: copies the first COUNT pictures and labels of the set NAME (train
# or t10k) from folder FROM to folder TO, as files of the same format.
first_pictures() {
    local from=$1 to=$2 name=$3 count=$4 kind magic head bytes
    while read -r kind magic head bytes; do
        {
            printf '%b' "\\x00\\x00\\x08\\x$magic"
            printf '%b' "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $((count >> 24)) $((count >> 16 & 255)) $((count >> 8 & 255)) $((count & 255)))"
            # the rest is read too, so that nobody complains of a closed pipe
            zcat "$from/$name-$kind-ubyte.gz" | tail -c +9 | { head -c $((head - 8 + count * bytes)) && cat >/dev/null; }
        } | gzip -1 >"$to/$name-$kind-ubyte.gz"
    done <<<$'images-idx3 03 16 784\nlabels-idx1 01 8 1'
}
