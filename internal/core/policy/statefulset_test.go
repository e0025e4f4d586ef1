package policy

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func ordinals(maxUnavailable string, partition int32) appsv1.StatefulSetUpdateStrategy {
	rolling := &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}
	if maxUnavailable != "" {
		rolling.MaxUnavailable = ptr.To(intstr.Parse(maxUnavailable))
	}
	return appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: rolling}
}

func TestFloorOfAStatefulSet(t *testing.T) {
	recreate := appsv1.StatefulSetUpdateStrategy{Type: appsv1.RecreateStatefulSetStrategyType}
	onDelete := appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	for claim, c := range map[string]struct {
		replicas *int32
		strategy appsv1.StatefulSetUpdateStrategy
		want     int32
		reason   string
	}{
		"one at a time by default":                                 {ptr.To(int32(10)), appsv1.StatefulSetUpdateStrategy{}, 9, ""},
		"no replicas default to one":                               {nil, appsv1.StatefulSetUpdateStrategy{}, 0, ""},
		"a number":                                                 {ptr.To(int32(10)), ordinals("3", 0), 7, ""},
		"a percentage rounds down":                                 {ptr.To(int32(10)), ordinals("25%", 0), 8, ""},
		"a percentage rounds down to at least one":                 {ptr.To(int32(3)), ordinals("25%", 0), 2, ""},
		"at most the pods above the partition":                     {ptr.To(int32(10)), ordinals("3", 8), 8, ""},
		"a partition above all pods admits one removal":            {ptr.To(int32(10)), ordinals("3", 10), 9, ""},
		"a partition above the size of the set admits one removal": {ptr.To(int32(10)), ordinals("", 1000), 9, ""},
		"a partition of 0 leaves maxUnavailable as it is":          {ptr.To(int32(10)), ordinals("5", 0), 5, ""},
		"more than there are":                                      {ptr.To(int32(2)), ordinals("5", 0), 0, ""},
		"OnDelete admits one removal, with a reason":               {ptr.To(int32(10)), onDelete, 9, v1alpha1.ReasonOnDeleteStrategy},
		"OnDelete of one":                                          {ptr.To(int32(1)), onDelete, 0, v1alpha1.ReasonOnDeleteStrategy},
		"Recreate has no floor, with a reason":                     {ptr.To(int32(10)), recreate, 0, v1alpha1.ReasonRecreateStrategy},
		"scaled to 0":                                              {ptr.To(int32(0)), ordinals("", 0), 0, v1alpha1.ReasonScaledToZero},
		"a partition that no longer fits after a scale-down":       {ptr.To(int32(0)), ordinals("3", 8), 0, v1alpha1.ReasonScaledToZero},
	} {
		t.Run(claim, func(t *testing.T) {
			s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop"}, Spec: appsv1.StatefulSetSpec{
				Replicas: c.replicas, UpdateStrategy: c.strategy, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
			got, err := Protectors(Source{Kind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Object: s}, StatefulSets{}, Origin{})
			if err != nil {
				t.Fatal(err)
			}
			reason := got[0].Reason
			if reason == v1alpha1.ReasonSourceFound {
				reason = ""
			}
			if got[0].Object.Spec.MinAvailable.IntVal != c.want || reason != c.reason {
				t.Errorf("floor %s, reason %q (%s); want %d, %q", got[0].Object.Spec.MinAvailable, got[0].Reason, got[0].Message, c.want, c.reason)
			}
		})
	}
}

func TestStatefulSetWithoutSelectorIsRejected(t *testing.T) {
	if _, err := (StatefulSets{}).Interpret(Source{Object: &appsv1.StatefulSet{}}); err == nil || !strings.Contains(err.Error(), "spec.selector") {
		t.Errorf("error = %v, want it to name spec.selector", err)
	}
	bad := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{}, UpdateStrategy: ordinals("some", 0)}}
	if _, err := (StatefulSets{}).Interpret(Source{Object: bad}); err == nil || !strings.Contains(err.Error(), "rollingUpdate.maxUnavailable") {
		t.Errorf("error = %v, want it to name the field", err)
	}
}
