package provider

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestCellIsDeadAfterStaleAfter(t *testing.T) {
	now := time.Date(2026, 4, 5, 6, 7, 8, 0, time.UTC)
	for name, c := range map[string]struct {
		silent, staleAfter time.Duration
		never              bool
		fresh              metav1.ConditionStatus
		alive              bool
	}{
		"just reported": {silent: time.Second, fresh: metav1.ConditionTrue, alive: true},
		"silent for slightly less than staleAfter":         {silent: time.Minute - time.Second, alive: true},
		"silent for staleAfter":                            {silent: time.Minute},
		"within its own staleAfter":                        {silent: 2 * time.Minute, staleAfter: 3 * time.Minute, alive: true},
		"past its own staleAfter":                          {silent: 21 * time.Second, staleAfter: 20 * time.Second},
		"silent although its condition was fresh long ago": {silent: time.Hour, fresh: metav1.ConditionTrue},
		"the controller marks it stale":                    {silent: -time.Hour, fresh: metav1.ConditionFalse},
		"a clock that is ahead":                            {silent: -time.Hour, fresh: metav1.ConditionUnknown, alive: true},
		"it never had a leader":                            {never: true},
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
			if why := heartbeatReason(cell, now); (why != "") != c.alive || c.alive && !strings.Contains(why, "aggregator-0 reported") {
				t.Errorf("aliveReason() = %q", why)
			}
		})
	}
}
