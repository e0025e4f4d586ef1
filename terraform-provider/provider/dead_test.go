package provider

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestACellIsDeadWhenItsAggregatorIsSilentForLongEnough(t *testing.T) {
	now := time.Date(2026, 4, 5, 6, 7, 8, 0, time.UTC)
	for name, c := range map[string]struct {
		silent, staleAfter time.Duration
		never              bool
		fresh              metav1.ConditionStatus
		alive              bool
	}{
		"just reported":                      {silent: time.Second, fresh: metav1.ConditionTrue, alive: true},
		"not quite long enough":              {silent: time.Minute - time.Second, alive: true},
		"long enough":                        {silent: time.Minute},
		"not by its own time":                {silent: 2 * time.Minute, staleAfter: 3 * time.Minute, alive: true},
		"by its own time":                    {silent: 21 * time.Second, staleAfter: 20 * time.Second},
		"whoever said it was fresh long ago": {silent: time.Hour, fresh: metav1.ConditionTrue},
		"the controller, which compares no clocks, calls it silent": {silent: -time.Hour, fresh: metav1.ConditionFalse},
		"a clock that is ahead": {silent: -time.Hour, fresh: metav1.ConditionUnknown, alive: true},
		"nobody ever led it":    {never: true},
	} {
		t.Run(name, func(t *testing.T) {
			cell := &v1alpha1.Cell{}
			cell.Status.Aggregator.Holder = "aggregator-0"
			if !c.never {
				cell.Status.Aggregator.LastHeartbeat = &metav1.MicroTime{Time: now.Add(-c.silent)}
			}
			if c.staleAfter > 0 {
				cell.Spec.StaleAfter = &metav1.Duration{Duration: c.staleAfter}
			}
			if c.fresh != "" {
				cell.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAggregationFresh, Status: c.fresh}}
			}
			if why := aliveness(cell, now); (why != "") != c.alive || c.alive && !strings.Contains(why, "aggregator-0 has reported") {
				t.Errorf("it is alive because %q", why)
			}
		})
	}
}
