#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kolo_coco.sh BIN: tests kolo-coco's output for small sets, alone and on 3 ranks, and what it
# refuses: with the same line on every rank, status 1, and no file written.
set -u
bin=$1 failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
wrong() { echo "FAIL: $*"; failures=$((failures + 1)); }
alone() { timeout 60 "$bin/kolo-coco" "$@"; }
together() { timeout 60 "$bin/kolorun" -np 3 --oversubscribe --no-prefix "$bin/kolo-coco" "$@"; }

cat >gt.json <<'END'
{"info": {"annotations": 1}, "licenses": [],
 "images": [{"id": 1, "file_name": "a"}, {"id": 2}, {"id": 7}],
 "annotations": [
  {"id": 1, "image_id": 1, "category_id": 3, "bbox": [10, 10, 50.5, 40], "area": 1500, "iscrowd": 0, "segmentation": [[1, 2]]},
  {"id": 2, "image_id": 2, "category_id": 1, "bbox": [10, 10, 100, 140], "area": 12000.5, "iscrowd": false}],
 "categories": [{"id": 3, "name": "dog"}, {"id": 1, "name": "per\"son\u001b[1m"}]}
END
cat >dt.json <<'END'
[{"image_id": 1, "category_id": 3, "bbox": [11, 10, 50.5, 40], "score": 0.9},
 {"image_id": 2, "category_id": 1.0, "bbox": [12.258, 10, 99, 140], "score": 8e-1, "segmentation": {"size": [1, 2], "counts": "a}\"]b"}}]
END
cat >expected <<'END'
 Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 1.000
 Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=100 ] = 1.000
 Average Precision  (AP) @[ IoU=0.75      | area=   all | maxDets=100 ] = 1.000
 Average Precision  (AP) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = -1.000
 Average Precision  (AP) @[ IoU=0.50:0.95 | area=medium | maxDets=100 ] = 1.000
 Average Precision  (AP) @[ IoU=0.50:0.95 | area= large | maxDets=100 ] = 1.000
 Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=  1 ] = 1.000
 Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets= 10 ] = 1.000
 Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 1.000
 Average Recall     (AR) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = -1.000
 Average Recall     (AR) @[ IoU=0.50:0.95 | area=medium | maxDets=100 ] = 1.000
 Average Recall     (AR) @[ IoU=0.50:0.95 | area= large | maxDets=100 ] = 1.000
END
alone gt.json dt.json >out 2>err || wrong "alone: $(tail -2 err)"
cmp -s out expected || wrong "alone: $(cat out)"
together gt.json dt.json --iou-type bbox >out 2>err || wrong "together: $(tail -2 err)"
cmp -s out expected || wrong "together: $(cat out)"
for plan in doubling bruck oneshot; do # each of them cannot run some of the collectives
    for transport in shm tcp; do
        KOLO_PLAN=$plan KOLO_TRANSPORT=$transport together gt.json dt.json >out 2>err || wrong "$plan, $transport: $(tail -2 err)"
        cmp -s out expected || wrong "$plan, $transport: $(cat out)"
    done
done
# With other borders the first ground truth, of 1500, is small or medium, and the second one medium or large.
for borders in 1600,9216:1.000,-1.000,1.000 1600,12001:1.000,1.000,-1.000 1400,12000.25:-1.000,1.000,1.000; do
    IFS=, read -r small medium large <<<"${borders#*:}"
    alone gt.json dt.json --areas "${borders%:*}" >out 2>err || wrong "--areas $borders: $(tail -2 err)"
    sed -E "s/(area= small .* = ).*/\1$small/; s/(area=medium .* = ).*/\1$medium/; s/(area= large .* = ).*/\1$large/" expected | cmp -s - out ||
        wrong "--areas $borders: $(cat out)"
done
alone gt.json dt.json --per-class >out 2>err || wrong "classes: $(tail -2 err)"
grep -qE '^ +1  1\.000 .*  per"son\?\[1m$' out || wrong "classes: $(tail -3 out | cat -v)"

# Names are only printed, whatever they are; ignore is read only where it counts.
sed 's/"name": "dog"/"name": 5, "supercategory": null/; s/"iscrowd": 0/"iscrowd": 0, "ignore": "0"/; s/"iscrowd": false/"iscrowd": false, "ignore": null/' gt.json >odd.json
alone odd.json dt.json >out 2>err && cmp -s out expected || wrong "a name that is a number, ignore as text: $(cat out err)"
alone odd.json dt.json --mode fixed >out 2>err && wrong "ignore as text where it counts: success"
grep -q 'the ignore of this annotation is a string' err || wrong "ignore as text where it counts: $(cat err)"
for name in null true '["a", {"b": "c"}]' '{"id": 9}'; do
    sed "s/\"name\": \"dog\"/\"name\": \"dog\", \"name\": $name/" gt.json >odd.json
    alone odd.json dt.json --per-class >out 2>err || wrong "a name that is $name: $(cat err)"
    grep -qE '^ +3 .*dog' out && wrong "a name that is $name: is the earlier one: $(cat out)"
done
long=$(printf 'x%.0s' {1..254})
sed "s/dog/$long\xc3\xa9\xc3\xa9/" gt.json >odd.json
alone odd.json dt.json --per-class >out 2>err || wrong "a long name: $(cat err)"
grep -qE "^ +3 .*  $long\$" out || wrong "a long name: $(cat out)"
sed "s/\"score\": 0.9/\"score\": 0.9$(printf '0%.0s' {1..1100})/" dt.json >odd.json
alone gt.json odd.json >out 2>err && wrong "a number of 1103 characters: success"
grep -q 'a number of 1103 characters' err || wrong "a long number: $(cat err)"
# Thresholds that are almost 0.5 or 0.75 are other ones, in every output.
for almost in 0.5,0.7500000000000001 0.4999999999999,0.75; do
    alone gt.json dt.json --iou-thresholds $almost --json r.json >out 2>err || wrong "$almost: $(cat err)"
    python3 - $almost <<'PY' || wrong "$almost: $(cat r.json)"
import json, sys
found = json.load(open("r.json"))
missing = "AP75" if sys.argv[1].endswith("01") else "AP50"
assert found["stats"][missing] == -1 and all(entry[missing] == -1 for entry in found["per_class"])
PY
done
# Of a key that occurs twice the last value counts, also if it has no numbers.
cat >masks.json <<'END'
{"images": [{"id": 1, "height": 100, "width": 100}], "categories": [{"id": 1}], "annotations": [
  {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 0, "segmentation": [[0, 0, 9, 0, 9, 9, 0, 9]]},
  {"id": 2, "image_id": 1, "category_id": 1, "bbox": [50, 50, 40, 40], "area": 1600, "iscrowd": 0, "segmentation": [[50, 50, 90, 50, 90, 90, 50, 90]]}]}
END
for box in '"bbox": []' '"bbox": [0, 0, 50, 50], "bbox": []'; do
    echo '[{"image_id": 1, "category_id": 1, "score": 0.9, '"$box"', "segmentation": {"size": [100, 100], "counts": [9000, 9, 991]}}]' >twice.json
    alone masks.json twice.json --iou-type segm >"out-${#box}" 2>err || wrong "$box: $(cat err)"
done
cmp -s out-10 out-34 || wrong "bbox twice: $(cat out-10 out-34)"

# Results that are read in many pieces: the same on 1 and 3 ranks, compressed or not, and with
# errors in them.
many() {
    awk -v n="$1" 'BEGIN {
        srand(5); print "["
        for (i = 0; i < n; i++)
            printf "{\"image_id\": %d, \"category_id\": %d, \"score\": %.1f, \"bbox\": [%.9f, %d, %.14f, 90.5]}%s\n",
                rand() < 0.6 ? 1 : 2, rand() < 0.5 ? 1 : 3, rand(), 20 * rand(), 20 * rand(), 40 + 70 * rand(), i < n - 1 ? "," : "]"
    }'
}
many 5000 >many.json
gzip -k many.json gt.json
alone gt.json many.json --json one.json >out1 2>err || wrong "many, alone: $(tail -2 err)"
together gt.json.gz many.json.gz --json three.json >out3 2>err || wrong "many, together: $(tail -2 err)"
cmp -s out1 out3 || wrong "many: other lines together: $(diff out1 out3)"
grep -vE '"(ground_truth|results)"' one.json >one; grep -vE '"(ground_truth|results)"' three.json >three
cmp -s one three || wrong "many: other JSON together: $(diff one three | head)"
grep -q '"detections": 5000' one.json || wrong "many: not 5000 detections"
grep -qE '"precision": "[0-9a-f]{64}"' one.json || wrong "many: no SHA-256"
# Ranks read a plain list in parts, but not a compressed one; both have 5000 detections.
for file in many.json:3 many.json.gz:0; do
    KOLO_LOG=debug together gt.json "${file%:*}" >out 2>err || wrong "$file: $(grep -v debug err | tail -2)"
    parts=$(sed -n "s/.*: ${file%:*}: \([0-9]*\) detections from byte .* this rank's part$/\1/p" err | paste -sd+)
    [[ $(tr + '\n' <<<"$parts" | grep -c .) == "${file#*:}" ]] || wrong "$file is read in parts '$parts'"
    [[ ! $parts || $((parts)) == 5000 ]] || wrong "$file: the parts have $parts detections"
done
echo '[]' >none.json
alone gt.json none.json >out 2>err || wrong "no detections: $(tail -2 err)"
grep -q 'area=   all | maxDets=100 \] = 0.000' out || wrong "no detections: $(cat out)"

# --verbose: what was read, and the images without detections. The lowest ids are named, whichever
# ranks have them.
alone gt.json dt.json --verbose --json verbose.json >out 2>err || wrong "--verbose: $(tail -2 err)"
printf '%s\n' 'gt.json: 3 images, 2 categories, 2 annotations' 'dt.json: 2 detections, 2 of them counted' \
    'no detection is of 1 image: 7' | sed 's/^/kolo-coco: /' >said
cmp -s err said || wrong "--verbose: $(cat err)"
cmp -s out expected || wrong "--verbose: $(cat out)"
together gt.json none.json --verbose --json verbose3.json >out 2>err || wrong "--verbose, together: $(tail -2 err)"
grep -qFx 'kolo-coco: no detection is of 3 images: 1 2 7' err || wrong "--verbose, together: $(cat err)"
tr -d ' \n' <verbose.json | grep -F '"images_without_detections":1,"first_of_them":[7]' >/dev/null || wrong "--json: $(grep -A3 without verbose.json)"
tr -d ' \n' <verbose3.json | grep -F '"images_without_detections":3,"first_of_them":[1,2,7]' >/dev/null || wrong "--json: $(cat verbose3.json)"
awk 'BEGIN { printf "{\"annotations\": [], \"categories\": [{\"id\": 1}], \"images\": ["; for (i = 40; i > 0; i--) printf "{\"id\": %d}%s", i, (i > 1 ? "," : "]}") }' >bare.json
together bare.json none.json --verbose >out 2>err || wrong "--verbose of 40: $(tail -2 err)"
grep -qFx 'kolo-coco: no detection is of 40 images: 1 2 3 4 5 6 7 8 9 10 and others' err || wrong "--verbose of 40: $(cat err)"

# refused PATTERN GT DT [OPTION...]: must fail with one line, the same on every rank, and write
# nothing.
refused() {
    local pattern=$1 line
    shift
    alone "$@" --json refused.json >out 2>err && wrong "$*: succeeded"
    line=$(grep '^kolo-coco: ' err)
    [[ $line =~ ^kolo-coco:\ $pattern && $line != *$'\n'* ]] || wrong "$*: expected '$pattern', got: $(cat err)"
    [[ ! -s out ]] || wrong "$*: printed results"
    together "$@" --json refused.json >out 2>err && wrong "$*: succeeded together"
    [[ $(grep -cFx -- "$line" err) == 3 ]] || wrong "$*: not '$line' on each rank: $(cat err)"
    compgen -G 'refused.json*' >/dev/null && wrong "$*: left $(echo refused.json*)" && rm -f refused.json*
}
# found PATTERN DETECTIONS: refused, for a file of results.
found() { printf '%s' "$2" >bad.json; refused "$1" gt.json bad.json; }
one='{"image_id": 1, "category_id": 3, "bbox": [1, 2, 3, 4], "score": 0.5}'
found 'bad.json: line 1, column 1 \(byte 0\): a list of results' '"a"'
found 'bad.json: no "annotations" in it' '{"a": 1}'
found 'bad.json: line 1, column 1 \(byte 0\): a byte order mark \(EF BB BF\); write' $'\xef\xbb\xbf'"[$one]"
found 'bad.json: line 1, column 1 \(byte 0\): a byte order mark of UTF-16 \(FF FE\)' $'\xff\xfe['
found 'bad.json: line 1, column 1 \(byte 0\): the file ends here' ''
found 'bad.json: line 2, column 1 .*the file ends here' "[$one,
"
found 'bad.json: line 1.*the file ends here' "[${one:0:30}"
found 'bad.json: line 1, column .*a detection is expected' "[$one,]"
found 'bad.json: line 1, column .*a detection is expected' '[1]'
found 'bad.json: line 1.*something follows' "[$one] x"
found "bad.json: line 1.*',' or ']' is expected" "[$one $one]"
found 'bad.json: line 2, column (5[0-9]|6[0-9]) .*NaN: numbers must be finite' "[$one,
${one/0.5/NaN}]"
found 'bad.json: line 1.*Infinity: numbers must be finite' "[${one/0.5/-Infinity}]"
found 'bad.json: line 1.*1e999 is too large' "[${one/0.5/1e999}]"
found 'bad.json: line 1.*NaN: numbers must be finite' "[${one/3,/NaN,}]"
found 'bad.json: line 1.*parse error' "[${one/:/ }]"
found 'bad.json: line 1.*the height of a bbox is -4' "[${one/ 4/ -4}]"
found 'bad.json: line 1.*a bbox of .* by 1e\+308 at .* is too large' "[${one/ 4/ 1e308}]"
found 'bad.json: line 1.*a bbox of 3 numbers' "[${one/, 4/}]"
found 'bad.json: line 1.*more than 4 numbers' "[${one/ 4/ 4, 5}]"
found 'bad.json: line 1.*null in a bbox' "[${one/ 4/ null}]"
found 'bad.json: line 1.*the bbox of this detection is a string; it must be an array of 4 numbers' "[${one/\[1, 2, 3, 4\]/\"x\"}]"
found 'bad.json: line 1.*this detection has no score' "[${one/score/scare}]"
found 'bad.json: line 1.*this detection has no bbox, which --iou-type bbox \(the default\) needs' "[${one/bbox/segmentation}]"
found 'bad.json: line 1.*image 9, which the ground truth does not list: are these' "[${one/1,/9,}]"
found 'bad.json: line 1.*category 8, .*--skip-unknown' "[${one/3,/8,}]"
found 'bad.json: line 1.*the image_id of this detection is a string; it must be an integer' "[${one/1,/\"1\",}]"
found 'bad.json: line 1.*the image_id .* is 1.5; it must be an integer' "[${one/1,/1.5,}]"
found 'bad.json: line 1.*more than 64 deep' "[${one/0.5/0.5, \"x\": $(printf '[%.0s' {1..200})}]"
sed -e '3456s/"score": [01]/"score": !/' -e '4000s/:/;/' many.json >bad.json
refused 'bad.json: line 3456, column [0-9]+ \(byte [0-9]+\): lexical error' gt.json bad.json
printf '[%s]' "${one/3,/8,}" >unknown.json
alone gt.json unknown.json --skip-unknown >out 2>err || wrong "--skip-unknown: $(cat err)"

# Results as a list inside an object, as in a file of ground truth; in pieces and compressed, on 1
# and 3 ranks.
printf '{"info": {"annotations": [{"x": 1}]},\n "annotations": %s, "licenses": []}' "$(<many.json)" >wrapped.json
gzip -kf wrapped.json
alone gt.json wrapped.json >out 2>err || wrong "wrapped: $(tail -2 err)"
cmp -s out1 out || wrong "wrapped: other lines"
together gt.json wrapped.json.gz >out 2>err || wrong "wrapped, together: $(tail -2 err)"
cmp -s out1 out || wrong "wrapped, together: other lines"
# A string around the list is not read again for each of its bytes (which took minutes), and what
# looks like the list within it is none.
{
    printf '{"info": "'
    awk 'BEGIN { for (i = 0; i < 60000; i++) printf "\\\"annotations\\\": [{\\\\" }'
    printf '",\n "annotations": %s}' "$(<many.json)"
} >wrapped.json
alone gt.json wrapped.json >out 2>err || wrong "a long string around the list: $(tail -2 err)"
cmp -s out1 out || wrong "a long string around the list: other lines"
found 'bad.json: line 1.*"annotations" is there twice' "{\"annotations\": [$one], \"annotations\": []}"
found 'bad.json: line 1.*"annotations" is an object' "{\"annotations\": $one}"
found 'bad.json: no "annotations" in it' "{\"annotation\": [$one]}"
found 'bad.json: line 1.*a detection is expected' "{\"annotations\": [1]}"
found 'bad.json: line 1.*the file ends here' "{\"annotations\": [$one]"
found 'bad.json: line 1.*parse error' "{\"annotations\": [$one], 1}"
found 'bad.json: line 1.*(parse error|garbage)' "{\"annotations\": [$one]} []"
found 'bad.json: line 1.*NaN' "{\"info\": NaN, \"annotations\": [$one]}"

# Files as other programs write them: ids that are floats, masks and other members beside boxes,
# ground truth without area and iscrowd.
first='1.0, "category_id": 3.0, "id": "x", "area": null, "iscrowd": []'
second='"segmentation": {"size": [1, 2], "counts": "a}]"}, "keypoints": null, "attributes": [{"b": ["]"]}], "score"'
printf '[%s, %s]' "${one/1, \"category_id\": 3/$first}" "${one/\"score\"/$second}" >more.json
printf '[%s, %s]' "$one" "$one" >same.json
alone gt.json more.json >out 2>err || wrong "extra keys: $(tail -2 err)"
alone gt.json same.json >out2 2>err
cmp -s out out2 || wrong "extra keys: other lines"
sed -e 's/"area": 1500, "iscrowd": 0, //' gt.json >few.json
alone few.json dt.json --mode fixed >out 2>err || wrong "without area and iscrowd: $(tail -2 err)"
grep -q 'area=medium | maxDets=100 \] = 1.000' out || wrong "without area and iscrowd: $(cat out)"

# Masks and keypoints.
points=$(printf '1, 2, 2%.0s, ' {1..16})1,\ 2,\ 2
cat >shapes.json <<END
{"images": [{"id": 1, "height": 9, "width": 9}], "categories": [{"id": 3}], "annotations": [
 {"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 1, 6, 6], "area": 36, "iscrowd": 0, "num_keypoints": 17,
  "segmentation": [[1, 1, 7, 1, 7, 7, 1, 7]], "keypoints": [$points]}]}
END
mask='{"size": [9, 9], "counts": [10, 5, 66]}'
shape='{"image_id": 1, "category_id": 3, "score": 0.5, "segmentation": {"size": [9, 9], "counts": [10, 5, 66]}, "keypoints": ['$points']}'
for kind in segm keypoints; do
    printf '[%s]' "$shape" >dt.shapes.json
    alone shapes.json dt.shapes.json --iou-type $kind --per-class >out1 2>err || wrong "$kind: $(tail -2 err)"
    together shapes.json dt.shapes.json --iou-type $kind --per-class >out3 2>err || wrong "$kind, together: $(tail -2 err)"
    cmp -s out1 out3 || wrong "$kind: other lines together"
done
[[ $(grep -c 'maxDets= 20' out1) == 10 && $(head -1 out1) == *1.000 ]] || wrong "keypoints: $(cat out1)"
shaped() { printf '[%s]' "$3" >bad.json; refused "$2" shapes.json bad.json --iou-type "$1"; }
shaped segm 'bad.json: detection 1: the size of the mask is \[9, 8\], its image.s \[9, 9\]' "${shape/9, 9/9, 8}"
shaped segm 'bad.json: detection 1: ' "${shape/66/67}"
shaped segm 'bad.json: detection 1: ' "${shape/\[10, 5, 66\]/\"!\"}"
shaped segm 'bad.json: line 1.*segmentation of this detection: .*whole numbers' "${shape/5, 66/-5, 76}"
shaped segm 'bad.json: line 1.*segmentation of this detection: .*without counts' "${shape/counts/count}"
shaped segm 'bad.json: line 1.*segmentation of this detection: the size of a mask' "${shape/9, 9/9}"
shaped segm 'bad.json: line 1.*this detection has no segmentation, which --iou-type segm needs' "${shape/segmentation/segment}"
shaped segm 'bad.json: line 1.*the segmentation of this detection is null' "${shape/"$mask"/null}"
shaped segm 'bad.json: line 1.*NaN' "${shape/66/NaN}"
shaped keypoints 'bad.json: detection 1: 50 numbers as keypoints; 51 are needed' "${shape/1, 2, 2, /1, 2, }"
shaped keypoints 'bad.json: detection 1: the keypoints are too far from each other' "${shape/1, 2, 2, 1, 2, 2/1e308, 2, 2, -1e308, 3, 2}"
sed 's/\[1, 2, 2, 1, 2/[1e308, 2, 2, -1e308, 3/' shapes.json >bad.json
refused 'bad.json: annotation 1: the keypoints are too far from each other' bad.json dt.shapes.json --iou-type keypoints
shaped keypoints 'bad.json: line 1.*NaN' "${shape/1, 2, 2/1, NaN, 2}"
shaped keypoints 'bad.json: line 1.*keypoints of this detection: .*null' "${shape/1, 2, 2/1, null, 2}"
sed 's/7, 1, 7\]\]/7, 1]]/' shapes.json >bad.json
refused 'bad.json: line 3.*a polygon of no points' bad.json dt.shapes.json --iou-type segm
sed 's/"height": 9, //' shapes.json >bad.json
refused 'bad.json: annotation 1: polygons need the height' bad.json dt.shapes.json --iou-type segm
sed 's/"height": 9, "width": 9/"height": 1, "width": 4294967295/' shapes.json >bad.json
refused 'bad.json: line [0-9]+, .*an image of 4294967295 times 1 pixels; a side has 1 to 1048576' bad.json dt.shapes.json --iou-type segm
sed -e 's/, "height": 9, "width": 9//' -e 's/\[\[1, 1, 7, 1, 7, 7, 1, 7\]\]/'"$mask/" shapes.json >no_size.json
printf '[%s, %s]' "$shape" "${shape/"$mask"/{\"size\": [9, 8], \"counts\": [72]\}}" >bad.json
refused 'bad.json: detection 2: the size of the mask is \[9, 8\], but other masks of its image have \[9, 9\]' no_size.json bad.json --iou-type segm
sed 's/"num_keypoints": 17,//' shapes.json >bad.json
refused 'bad.json: line [23].*this annotation has no num_keypoints' bad.json dt.shapes.json --iou-type keypoints

# Sigmas: built in for COCO's 17 points; for other points they must be given, one for all or as many
# as the category has points.
printf '[%s]' "$shape" >dt.shapes.json
sed 's/{"id": 3}/{"id": 3, "keypoints": ["a", "b"]}/' shapes.json >two.json
refused "two.json: category 3 has 2 keypoints, COCO's sigmas are of 17; give theirs with --sigmas" two.json dt.shapes.json --iou-type keypoints
refused 'two.json: category 3 has 2 keypoints, --sigmas 3' two.json dt.shapes.json --iou-type keypoints --sigmas 0.1,0.2,0.3
refused 'two.json: annotation 1: 51 numbers as keypoints; 6 are needed' two.json dt.shapes.json --iou-type keypoints --sigmas 0.1
refused '--sigmas none.txt is neither .*: No such file' two.json dt.shapes.json --iou-type keypoints --sigmas none.txt
refused "--sigmas 0.1,-1: '-1' is not a number above 0" two.json dt.shapes.json --iou-type keypoints --sigmas 0.1,-1
refused "--sigmas gt.json: .* is not a number above 0" two.json dt.shapes.json --iou-type keypoints --sigmas gt.json
printf '%s\n' 0.1{,,,,,,,,,,,,,,,,} >sigmas.txt
alone shapes.json dt.shapes.json --iou-type keypoints --sigmas sigmas.txt >out 2>err || wrong "--sigmas FILE: $(tail -2 err)"

# LVIS: the members that images and categories must have, and those that they must not have.
lvis=', "neg_category_ids": [3], "not_exhaustive_category_ids": []'
sed -e "2s/{\"id\": \([127]\)/{\"id\": \1$lvis/g" \
    -e 's/"name": "/"frequency": "r", "name": "/g' gt.json >lvis.json
alone lvis.json dt.json --rules lvis >out 2>err || wrong "--rules lvis: $(tail -2 err)"
[[ $(grep -c 'maxDets=300 catIds=' out) == 13 ]] || wrong "--rules lvis: $(cat out)"
refused 'gt.json: line [0-9]+.*this (image has no neg_category_ids|category has no frequency)' gt.json dt.json --rules lvis
alone gt.json dt.json --rules lvis --mode fixed >out 2>err || wrong "--rules lvis --mode fixed: $(tail -2 err)"
known() { sed -e "$2" lvis.json >bad.json; refused "bad.json: line [0-9]+.*$1" bad.json dt.json --rules lvis; }
known 'the frequency of this category is not r, c or f' 's/"r"/"x"/'
known 'the frequency of this category is a number' 's/"r"/1/'
known 'a string in the neg_category_ids of this image; it has ids' 's/\[3\]/["3"]/'
known 'the neg_category_ids of this image is 1.5; it must be an integer' 's/\[3\]/[1.5]/'
known 'an array in the neg_category_ids of this image' 's/\[3\]/[[3]]/'
known 'the neg_category_ids of this image is a number' 's/\[3\]/3/'

# An overlap of 0.55 is enough for pycocotools' second threshold, not for TorchMetrics'.
cat >edge.json <<'END'
{"images": [{"id": 1}], "categories": [{"id": 3}], "annotations": [
 {"id": 1, "image_id": 1, "category_id": 3, "bbox": [0, 0, 100, 100], "area": 10000, "iscrowd": 0}]}
END
echo '[{"image_id": 1, "category_id": 3, "bbox": [0, 0, 55, 100], "score": 0.5}]' >dt.edge.json
for mode in numpy64:0.200 torch32:0.100 torch32-v1:0.100; do
    together edge.json dt.edge.json --threshold-mode "${mode%:*}" --json edge.out >out 2>err || wrong "$mode: $(tail -2 err)"
    grep -q "^ Average Precision  (AP) @\[ IoU=0.50:0.95 | area=   all | maxDets=100 \] = ${mode#*:}\$" out || wrong "$mode: $(cat out)"
    grep -q "\"threshold_mode\": \"${mode%:*}\"" edge.out || wrong "$mode: $(cat edge.out)"
done

# VOC: annotations need neither area nor iscrowd.
alone few.json dt.json --rules voc --per-class >out 2>err || wrong "--rules voc: $(tail -2 err)"
[[ $(grep -c 'IoU=0.50 .*VOC 20[01]' out) == 2 ]] || wrong "--rules voc: $(cat out)"

# truth PATTERN SED: refused, for the ground truth changed by SED.
truth() { sed -e "$2" gt.json >bad.json; refused "$1" bad.json dt.json; }
truth 'bad.json: line 1, column 1 \(byte 0\): a byte order mark \(EF BB BF\)' $'1s/^/\xef\xbb\xbf/'
truth 'bad.json: line 4, .*this annotation has no area' '4!s/x/x/; s/"area": 1500, //'
for field in area iscrowd; do # either spelling of a value
    truth "bad.json: line [45], .*this annotation has no $field, which only --mode fixed can do without" \
        "s/, \"$field\": [0-9a-z.]*//"
done
truth 'bad.json: line 4, .*this annotation has no category_id$' 's/"category_id": 3, //'
truth 'bad.json: line 6, .*this annotation has no iscrowd|bad.json: line [0-9]+, .*this annotation has no iscrowd' 's/, "iscrowd": false//'
truth 'bad.json: entries 1 and 2 of "annotations" both have the id 1; give each its own' 's/"id": 2, "image/"id": 1, "image/'
truth 'bad.json: entries 1 and 3 of "images" both have the id 1;' 's/{"id": 7}/{"id": 1}/'
truth 'bad.json: entries 1 and 2 of "categories" both have the id 3;' 's/{"id": 1, "name"/{"id": 3, "name"/'
truth 'bad.json: annotation 2 is of image 5' 's/"image_id": 2/"image_id": 5/'
truth 'bad.json: annotation 1 is of category 4' 's/"category_id": 3/"category_id": 4/'
truth 'bad.json: line 4.*the width of a bbox is -50.5' 's/50.5/-50.5/'
truth 'bad.json: line 4.*NaN' 's/1500/NaN/'
truth 'bad.json: no "categories" in it' 's/"categories"/"category"/'
truth 'bad.json: line 2, .*"images" is there twice' 's/"licenses": \[\]/"images": []/'
truth 'bad.json: line 1, .*"images" is a number' 's/"licenses": \[\]/"images": 1/'
truth 'bad.json: line [67].*(parse error|the file ends here)' '$d'
truth 'bad.json: line 1.*(parse error|lexical error)' '1s/^{/{,/'
echo '[]' >bad.json
refused 'bad.json: line 1.*the file is an array; .* the ground truth comes first, the results second' bad.json dt.json

head -c $(($(stat -c %s many.json.gz) / 2)) many.json.gz >cut.gz
refused 'cut.gz: the gzip file is cut' gt.json cut.gz
{ head -c -8 many.json.gz; printf 'abcdefgh'; } >damaged.gz
refused 'damaged.gz: damaged gzip data after [0-9]+ bytes of content: incorrect data check$' gt.json damaged.gz
# What follows gzip data: nothing, more gzip data, or zeros, as for gzip(1). Anything else is refused.
bytes=$(stat -c %s many.json.gz)
for tail in garbage 'x' '\x1f' '\x00\x00x' '\x1f\x8a\x08'; do
    { cat many.json.gz; printf "$tail"; } >tail.gz
    refused "tail.gz: damaged gzip data after [0-9]+ bytes of content: byte $bytes of the file, behind its gzip data, begins something else" \
        gt.json tail.gz
done
{ cat many.json.gz; head -c 5 many.json.gz; } >tail.gz
refused "tail.gz: the gzip file is cut: it ends after $(stat -c %s many.json) bytes" gt.json tail.gz
alone gt.json many.json >out || wrong "many, alone"
for cut in 1 5000; do
    { head -c $cut many.json | gzip; printf '' | gzip; tail -c +$((cut + 1)) many.json | gzip; } >members.gz
    head -c 70000 /dev/zero >>members.gz
    alone gt.json members.gz >members 2>err || wrong "several gzip members: $(cat err)"
    cmp -s out members || wrong "several gzip members: other numbers"
done
alone gt.json <(cat members.gz) >members 2>err || wrong "gzip members from a pipe: $(cat err)"
cmp -s out members || wrong "gzip members from a pipe: other numbers"
refused 'missing.json: No such file' gt.json missing.json
refused 'missing.json: No such file' missing.json dt.json
refused '.: Is a directory' gt.json .

# A file that only one rank cannot read, and a file that differs on one rank, also with the same
# size. odd PATTERN GT DT GT1 DT1: GT1 and DT1 are the files of rank 1.
odd() {
    timeout 60 "$bin/kolorun" -np 3 --oversubscribe --no-prefix sh -c '[ "$KOLO_RANK" != 1 ] || set -- "$3" "$4"; exec "$0" "$1" "$2" --json refused.json' \
        "$bin/kolo-coco" "${@:2}" >out 2>err && wrong "one rank with ${*:2}: succeeded"
    [[ $(grep -cE "^kolo-coco: $1 \(on rank 1 of 3\)$" err) == 3 ]] || wrong "one rank with ${*:2}: $(cat err)"
    compgen -G 'refused.json*' >/dev/null && wrong "one rank: left $(echo refused.json*)"
}
sed 's/0\.9/0.8/' dt.json >dt.twin.json
sed 's/1500/1501/' gt.json >gt.twin.json
odd 'missing.json: No such file or directory' gt.json dt.json gt.json missing.json
odd 'none.json: .* here, .* on rank 0; give all ranks the same file' gt.json dt.json gt.json none.json
odd 'dt.twin.json: ([0-9]*) bytes .* here, \1 with .* on rank 0; .*' gt.json dt.json gt.json dt.twin.json
odd 'gt.twin.json: ([0-9]*) bytes .* here, \1 with .* on rank 0; .*' gt.json dt.json gt.twin.json dt.json

# An output file that cannot be written; an existing one stays as it was.
alone gt.json dt.json --json missing/x.json >out 2>err && wrong "--json missing/x.json: succeeded"
grep -q '^kolo-coco: --json missing/x.json: No such file' err || wrong "--json missing/x.json: $(cat err)"
echo old >refused.json
alone gt.json missing.json --json refused.json >out 2>err && wrong "missing.json: succeeded"
[[ $(cat refused.json) == old ]] || wrong "an existing file was touched"

usage() {
    local pattern=$1 status
    shift
    alone "$@" >out 2>err
    status=$?
    [[ $status == 2 && $(wc -l <err) == 1 && ! -s out ]] || wrong "$*: status $status: $(cat err)"
    grep -qE "^kolo-coco: $pattern" err || wrong "$*: expected '$pattern', got: $(cat err)"
}
usage '--max-dets 1,10,100: give one number' gt.json dt.json --max-dets 1,10,100 --iou-type=keypoints
usage '--iou-type masks: unknown' gt.json dt.json --iou-type masks
usage '1 file given' gt.json
usage 'the name of the ground truth is empty' '' dt.json
usage 'the name of the results is empty' gt.json ''
usage 'option --plot needs a value' gt.json dt.json --plot
usage 'unknown option --plots' gt.json dt.json --plots
usage 'option --per-class=yes: it takes no value' gt.json dt.json --per-class=yes
usage 'option --help=yes: it takes no value' gt.json dt.json --help=yes
usage 'unknown option -z; ' gt.json dt.json -zh
KOLO_START_TIMEOUT=600 timeout 60 "$bin/kolorun" -np 3 --oversubscribe sh -c '[ "$RANK" != 0 ] || sleep 0.5; exec "$@"' sh "$bin/kolo-coco" gt.json --frob >out 2>&1
[[ $(grep -c kolo-coco: out) == 1 ]] && grep -q '^\[0\] kolo-coco: unknown option --frob' out || wrong "a slow rank 0: $(cat out)"
usage 'option --json needs a value' gt.json dt.json --json
usage '--max-dets 1,10: ' gt.json dt.json --max-dets 1,10
usage '--max-dets 10,1,100: ' gt.json dt.json --max-dets 10,1,100
usage '--numpy 3: ' gt.json dt.json --numpy 3
usage '--threshold-mode float16: unknown; use numpy64, torch32 or torch32-v1' gt.json dt.json --threshold-mode float16
usage '--mode lvis: ' gt.json dt.json --mode lvis
usage '--rules pascal: unknown; use coco, lvis or voc' gt.json dt.json --rules pascal
usage '--rules lvis is for bbox and segm' gt.json dt.json --rules lvis --iou-type keypoints
usage '--max-dets 1,10,100: give one number from 1 to 65535, as 300' gt.json dt.json --max-dets 1,10,100 --rules lvis
usage '--areas 1024: give two ascending numbers' gt.json dt.json --areas 1024
usage '--areas 9216,1024: give two ascending numbers' gt.json dt.json --areas 9216,1024
usage '--areas 1,1e11: give two ascending numbers above 0 and below 1e10' gt.json dt.json --areas 1,1e11
usage '--areas 1,2,3: give two ascending numbers' gt.json dt.json --areas 1,2,3
usage '--areas 1,2: --rules voc has no ranges' gt.json dt.json --areas 1,2 --rules voc
usage '--iou-thresholds 0.5,1.5: give 1 to 10' gt.json dt.json --iou-thresholds 0.5,1.5
usage '--iou-thresholds 0.5,: give 1 to 10' gt.json dt.json --iou-thresholds 0.5,
usage '--iou-thresholds nan: give 1 to 10' gt.json dt.json --iou-thresholds nan
usage '--sigmas belongs to --iou-type keypoints' gt.json dt.json --sigmas 0.1
usage '--pixel-boxes belongs to --rules voc' gt.json dt.json --pixel-boxes
alone --help >out 2>err && grep -q '^usage: kolo-coco GT.json DT.json' out || wrong "--help: $(cat err)"
alone --version >out 2>err && grep -qE '^kolo-coco [0-9]' out || wrong "--version: $(cat err)"

# One rank has too little memory for its detections. The limit is the least at which a small file is
# evaluated; programs with sanitizers do not start with any.
limited() { # KIB COMMAND...
    timeout 60 "$bin/kolorun" -np 2 --oversubscribe --no-prefix sh -c '[ "$RANK" != 1 ] || ulimit -v "$0"; exec "$@"' "$@"
}
if (ulimit -v 100000 && alone gt.json dt.json >out 2>err); then
    awk 'BEGIN {
        printf "["
        for (i = 0; i < 400000; i++)
            printf "%s{\"image_id\":%d,\"category_id\":1,\"bbox\":[1,2,3,4],\"score\":0.5}", i ? ",\n" : "", 1 + i % 2
        print "]"
    }' >many.json
    least=24000
    until limited $least "$bin/kolo-coco" gt.json dt.json >out 2>err || ((least >= 100000)); do least=$((least + 2000)); done
    limited $least "$bin/kolo-coco" gt.json many.json >out 2>err && wrong "too little memory: success"
    grep -qE '^kolo-coco: out of memory: (many\.json: )?cannot .* \(on rank 1 of 2\); raise `ulimit -v`' err ||
        wrong "too little memory: $(cat err)"
    grep -q 'line ' err && wrong "too little memory: a place in the file: $(cat err)"
    # The parser keeps a whole string.
    { printf '%s' "[${one/\"score\"/\"caption\": \"}"; head -c 60000000 /dev/zero | tr '\0' x; printf '", "score": 0.5}]'; } >long.json
    (ulimit -v $least; alone gt.json long.json >out 2>err)
    [[ $? == 1 ]] && grep -qE '^kolo-coco: out of memory: long.json: cannot .*; raise `ulimit -v`' err ||
        wrong "too little memory for a string: $(cat err)"
    alone gt.json long.json >out 2>err || wrong "a long string: $(cat err)"
fi

((failures == 0)) || { echo "$failures failed"; exit 1; }
