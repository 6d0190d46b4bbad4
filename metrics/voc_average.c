// SPDX-License-Identifier: Apache-2.0
// Computes PASCAL VOC's average precision: at points (2007: eleven recalls), and as the area under
// the curve (2010 and later). The area needs every true detection of a category, so it is computed
// on the rank that has all of them: with VOC's rules no category is cut. Sums have NumPy's order,
// term by term. Owns nothing.
#include "base/alloc.h"
#include "metrics/coco_share.h"

/* Writes the precision at each true detection of a category at one cap and flag, best first, and
 * returns their number. */
static size_t climb(struct kolo_coco_run *run, size_t cap, size_t flag, double *precision)
{
    const struct kolo_coco_record *taken[KOLO_COCO_TAKEN_MAX];
    int64_t found = 0, misses = 0;
    size_t count;
    kolo_coco_run_rewind(run);
    while ((count = kolo_coco_run_take(run, taken)) > 0)
        for (size_t i = 0; i < count; i++) {
            const struct kolo_coco_record *record = taken[i];
            if (record->position >= cap)
                continue;
            if (record->is_true[flag / 8] >> flag % 8 & 1) {
                found++;
                precision[found - 1] = (double)found / (double)(found + misses);
            } else if (!(record->is_ignored[flag / 8] >> flag % 8 & 1)) {
                misses++;
            }
        }
    return (size_t)found;
}

/* Sums the steps of recall, each times the highest precision from there on. A last step to a
 * recall of 1 that is not reached is 0, but it is one of NumPy's terms too. */
static double area_under(double *precision, size_t found, int64_t counted,
                         const struct kolo_coco_params *params)
{
    size_t terms = found;
    double highest = 0;
    for (size_t i = found; i-- > 0;) {
        highest = precision[i] > highest ? precision[i] : highest;
        double from = (double)i / (double)counted, to = (double)(i + 1) / (double)counted;
        precision[i] = (to - from) * highest;
    }
    if (found < (size_t)counted)
        precision[terms++] = 0;
    return kolo_coco_sum(precision, terms, params->mean_rule);
}

void kolo_voc_areas(const struct kolo_coco_share *share, struct kolo_coco_run *run, size_t class,
                    double *precision, double *areas)
{
    const struct kolo_coco_params *params = share->params;
    const int64_t *counted = share->sums + class * params->areas;
    for (size_t a = 0; a < params->areas; a++)
        for (size_t t = 0; counted[a] > 0 && t < params->thresholds; t++)
            for (size_t m = 0; m < params->caps; m++) {
                size_t found =
                    climb(run, (size_t)params->cap[m], a * params->thresholds + t, precision);
                areas[kolo_coco_at(params, t, class, a, m)] =
                    area_under(precision, found, counted[a], params);
            }
}

/* Averages the precision at the recalls: each is divided before it is added, one after the
 * other. */
static void average_points(const struct kolo_coco_params *params, struct kolo_coco_arrays *arrays)
{
    size_t row = params->classes * params->areas * params->caps;
    for (size_t t = 0; t < params->thresholds; t++)
        for (size_t i = 0; i < row; i++) {
            const double *precision = arrays->precision + t * params->recalls * row + i;
            double sum = 0;
            for (size_t r = 0; r < params->recalls; r++)
                sum += precision[r * row] / (double)params->recalls;
            arrays->voc_points[t * row + i] = *precision < 0 ? -1 : sum;
        }
}

kolo_status kolo_voc_join(struct kolo_coco_share *share, struct kolo_coco_arrays *arrays)
{
    const struct kolo_coco_params *params = share->params;
    kolo_status status = KOLO_OK;
    if (share->ranks > 1) /* each area is zero on all ranks but one */
        status = kolo_allreduce(share->comm, arrays->voc_areas, arrays->voc_areas, arrays->ends,
                                KOLO_FLOAT64, KOLO_SUM, share->opts, NULL);
    for (size_t t = 0; status == KOLO_OK && t < params->thresholds; t++)
        for (size_t k = 0; k < params->classes; k++)
            for (size_t a = 0; a < params->areas; a++)
                for (size_t m = 0; m < params->caps; m++)
                    if (share->sums[k * params->areas + a] == 0)
                        arrays->voc_areas[kolo_coco_at(params, t, k, a, m)] = -1;
    if (status == KOLO_OK)
        average_points(params, arrays);
    return status;
}

/* Returns the mean over all thresholds and categories, at the last cap. */
static double mean_of(const struct kolo_coco_params *params, const double *values, double *spare)
{
    size_t count = 0;
    for (size_t i = 0; i < params->thresholds * params->classes; i++) {
        double value = values[(i * params->areas) * params->caps + params->caps - 1];
        if (value > -1)
            spare[count++] = value;
    }
    return count > 0 ? kolo_coco_mean(spare, count, params->mean_rule) : -1;
}

kolo_status kolo_voc_stats(const struct kolo_coco_params *params,
                           const struct kolo_coco_arrays *arrays, double *stats, size_t *count_out)
{
    double *spare = kolo_calloc(params->thresholds * params->classes, sizeof *spare);
    if (!spare)
        return KOLO_ERR_NO_MEMORY;
    stats[0] = mean_of(params, arrays->voc_points, spare);
    stats[1] = mean_of(params, arrays->voc_areas, spare);
    *count_out = 2;
    kolo_free_memory(spare);
    return KOLO_OK;
}
