package brake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// DescribeRelease describes the effect of releasing a protector, as "release the floor of 8". large is false if its floor is 0.
func DescribeRelease(p *v1alpha1.PodProtector) (effect string, large bool) {
	floor, known := quota.Floor(p)
	switch {
	case !known:
		return "release a floor that is still unknown", true
	case floor == 0:
		return "", false
	default:
		return fmt.Sprintf("release the floor of %d", floor), true
	}
}

// describeLowering compares the floors. If one of them is unknown, it compares the values in the specs.
func describeLowering(before, after *v1alpha1.PodProtector, reference int) (effect string, large bool) {
	from, fromKnown := quota.Floor(before)
	to, toKnown := quota.Floor(after)
	if fromKnown && toKnown {
		highest := max(from, reference)
		return fmt.Sprintf("lower the floor from %d to %d", highest, to), to < from && isLarge(highest, to)
	}
	if floorText(before) == floorText(after) {
		return "", false
	}
	effect = fmt.Sprintf("change the floor from %s to %s", floorText(before), floorText(after))
	from, fromPercent := percent(before)
	to, toPercent := percent(after)
	if fromPercent && toPercent {
		return effect, to < from // rounding may halve the floor: 51 % of 2 pods are 2, 50 % are 1
	}
	return effect, true // it cannot prove that the decrease is small
}

// floorText returns the floor of a spec as text.
func floorText(p *v1alpha1.PodProtector) string {
	switch spec := &p.Spec; {
	case spec.MinAvailable != nil:
		return "minAvailable " + spec.MinAvailable.String()
	case spec.MaxUnavailable != nil:
		return "maxUnavailable " + spec.MaxUnavailable.String()
	default:
		return "none"
	}
}

// percent returns the floor in percent of the expected pods. ok is false if the spec does not give a percentage.
func percent(p *v1alpha1.PodProtector) (percent int, ok bool) {
	read := func(of *intstr.IntOrString) (int, bool) {
		if of == nil || of.Type != intstr.String {
			return 0, false
		}
		number, err := strconv.Atoi(strings.TrimSuffix(of.StrVal, "%"))
		return number, err == nil
	}
	if p.Spec.MinAvailable != nil {
		return read(p.Spec.MinAvailable)
	}
	unavailable, ok := read(p.Spec.MaxUnavailable)
	return 100 - unavailable, ok
}

func isLarge(from, to int) bool { return to < from && 2*to <= from }

// maxFormerFloors is the maximum number of floors that AnnotationFloorReference records.
const maxFormerFloors = 16

// formerFloor is a floor that a protector had until a time.
type formerFloor struct {
	floor int
	until time.Time
}

// formerFloors parses the protector's annotation: the floors that it had in the current window, the highest and oldest first.
func formerFloors(p *v1alpha1.PodProtector, window time.Duration, now time.Time) (all []formerFloor) {
	for _, entry := range strings.Split(p.Annotations[v1alpha1.AnnotationFloorReference], ",") {
		text, at, _ := strings.Cut(entry, "@")
		floor, err := strconv.Atoi(text)
		until, errTime := time.Parse(time.RFC3339, at)
		if err == nil && errTime == nil && now.Sub(until) < window {
			all = append(all, formerFloor{floor, until})
		}
	}
	return all
}

// Reference returns the highest floor of a protector in the current window, according to its annotation. It returns 0 if the
// annotation records no decrease in the window.
func Reference(p *v1alpha1.PodProtector, window time.Duration, now time.Time) (highest int) {
	for _, l := range formerFloors(p, window, now) {
		highest = max(highest, l.floor)
	}
	return highest
}

// NextReference returns the annotation value for a protector after a change of its spec. It is empty if no floor fell in the current
// window, or if the floors are unknown. It has every floor that was the highest from some time of the window until now: when a higher
// floor leaves the window, the lower ones that followed it still count.
func NextReference(before, after *v1alpha1.PodProtector, window time.Duration, now time.Time) string {
	all := formerFloors(before, window, now)
	from, fromKnown := quota.Floor(before)
	to, toKnown := quota.Floor(after)
	if fromKnown && toKnown && to < from {
		all = slices.DeleteFunc(all, func(l formerFloor) bool { return l.floor <= from })
		all = append(all, formerFloor{from, now})
	}
	if n := len(all); n > maxFormerFloors { // treat the lower floor as if it had been as high
		all = append(all[:n-2], formerFloor{all[n-2].floor, all[n-1].until})
	}
	var entries []string
	for _, l := range all {
		entries = append(entries, fmt.Sprintf("%d@%s", l.floor, l.until.UTC().Format(time.RFC3339)))
	}
	return strings.Join(entries, ",")
}
