package removal_test

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func TestFailedPrecondition(t *testing.T) {
	live := labeledPod(nil, "") // UID u, resourceVersion 7
	for claim, c := range map[string]struct {
		preconditions string
		want          string // part of the reason; "" if the eviction may succeed
	}{
		"none":                                {``, ""},
		"no preconditions":                    {`"preconditions":{}`, ""},
		"the UID of the pod":                  {`"preconditions":{"uid":"u"}`, ""},
		"the version of the pod":              {`"preconditions":{"resourceVersion":"7"}`, ""},
		"both of the pod":                     {`"preconditions":{"uid":"u","resourceVersion":"7"}`, ""},
		"empty ones":                          {`"preconditions":{"uid":"","resourceVersion":""}`, ""},
		"another UID":                         {`"preconditions":{"uid":"v"}`, `requires UID "v", and the pod of this name has UID "u"`},
		"an earlier version":                  {`"preconditions":{"resourceVersion":"6"}`, `requires resourceVersion "6", and the pod has "7"`},
		"a version that is no number":         {`"preconditions":{"resourceVersion":"one"}`, "resourceVersion"},
		"the UID, and a version that differs": {`"preconditions":{"uid":"u","resourceVersion":"6"}`, "resourceVersion"},
		"another UID, and the version":        {`"preconditions":{"uid":"v","resourceVersion":"7"}`, "UID"},
		"a UID of a megabyte":                 {`"preconditions":{"uid":"` + strings.Repeat("v", 1<<20) + `"}`, "UID"},
	} {
		t.Run(claim, func(t *testing.T) {
			r, _, err := removal.Parse(reviewOf(admissionv1.Create, "eviction", fmt.Sprintf(`{"metadata":{"name":"web-0"},"deleteOptions":{%s}}`, c.preconditions)))
			if err != nil {
				t.Fatal(err)
			}
			got := r.FailedPrecondition(live)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || len(got) > 400 {
				t.Errorf("FailedPrecondition() = %q, want %q", got, c.want)
			}
			if got := r.FailedPrecondition(nil); got != "" {
				t.Errorf("FailedPrecondition() of a missing pod = %q, want none", got)
			}
		})
	}
	t.Run("a deletion, which the API server compares before the review, has none", func(t *testing.T) {
		review := reviewOf(admissionv1.Delete, "", `{"metadata":{"namespace":"default","name":"web-0","uid":"u"}}`)
		review.Options.Raw = []byte(`{"preconditions":{"uid":"v"}}`)
		r, _, err := removal.Parse(review)
		if got := r.FailedPrecondition(&corev1.Pod{}); err != nil || got != "" {
			t.Errorf("FailedPrecondition() = %q, error %v, want none", got, err)
		}
	})
}
