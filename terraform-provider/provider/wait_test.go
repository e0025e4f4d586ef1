package provider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// setCondition sets a condition of the protector, as its components would, once the object has reached the generation.
func setCondition(t *testing.T, namespace string, generation int64, condition metav1.Condition) {
	t.Helper()
	c := testplane.Client(t)
	go func() {
		for range 600 {
			p := &v1alpha1.PodProtector{}
			err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, p)
			if err == nil && p.Generation >= generation {
				condition.ObservedGeneration, p.Status.ObservedGeneration = generation, generation
				apimeta.SetStatusCondition(&p.Status.Conditions, condition)
				if c.Status().Update(t.Context(), p) == nil {
					return
				}
			}
			<-time.After(50 * time.Millisecond)
		}
	}()
}

func TestApplyWaitsForConditions(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		config := func(floor, patience, conditions string) string {
			return protector(t, namespace, "selector = { match_labels = {} }\n min_available = \""+floor+"\"\n wait {\n"+conditions+"\n}\n timeouts {\n update = \""+patience+"\"\n}")
		}
		ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAggregated, Message: "all is counted"}
		steps(t,
			resource.TestStep{PreConfig: func() { setCondition(t, namespace, 1, ready) }, Config: config("1", "10s", "")},
			// Ready is still true, but for the previous generation.
			resource.TestStep{Config: config("2", "2s", ""), ExpectError: matchWrapped("its components have observed generation 1, want 2")},
			resource.TestStep{PreConfig: func() { setCondition(t, namespace, 3, ready) }, Config: config("3", "20s", `conditions = { Ready = "True" }`)},
			resource.TestStep{
				PreConfig: func() {
					setCondition(t, namespace, 4, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonFloorUnknown, Message: "the base is unknown"})
				},
				Config: config("4", "4s", ""), ExpectError: matchWrapped("condition Ready is False, want True (FloorUnknown): the base is unknown"),
			},
			resource.TestStep{Config: config("4", "2s", `conditions = { Ready = "False" }`)},
			resource.TestStep{Config: config("5", "2s", `conditions = { TargetResolved = "True" }`), ExpectError: matchWrapped("it has no condition TargetResolved")},
		)
	})
}

func TestApplyWaitsForFields(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		config := func(floor, fields string) string {
			return protector(t, namespace, "selector = { match_labels = {} }\n min_available = \""+floor+"\"\n wait {\n fields = {"+fields+"}\n}\n timeouts {\n update = \"3s\"\n}")
		}
		ready := metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, Reason: "Counted", Message: "it is counted"}
		steps(t,
			resource.TestStep{Config: config("1", `"status.desired" = "1"`), ExpectError: matchWrapped(`"status.desired": there is no desired: name one of`)},
			resource.TestStep{Config: config("1", `"status" = "1"`), ExpectError: matchWrapped(`is an object: name one of`)},
			resource.TestStep{Config: config("1", `"status.cells" = "1"`), ExpectError: matchWrapped(`cells has several values: name one of them, such as cells[0]`)},
			resource.TestStep{Config: config("1", `"status.observed_generation" = "("`), ExpectError: matchWrapped("is not a regular expression")},
			resource.TestStep{PreConfig: func() { setCondition(t, namespace, 1, ready) },
				Config: config("1", `"status.observed_generation" = "[1-9]", "status.conditions[0].reason" = "*", min_available = "1"`)},
			// The expression must match all of the value.
			resource.TestStep{PreConfig: func() { setCondition(t, namespace, 2, ready) }, Config: config("2", `"status.conditions[0].reason" = "Count"`),
				ExpectError: matchWrapped(`PodProtector ` + namespace + `/web: status.conditions[0].reason is "Counted", want "Count".`)},
			resource.TestStep{PreConfig: func() { setCondition(t, namespace, 3, ready) }, Config: config("3", `"status.cells[0].cell_id" = "a|b"`),
				ExpectError: matchWrapped("status.cells[0].cell_id is not set, want a match of a|b")},
		)
	})
}

func TestWaitIsLogged(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace, log := testplane.Namespace(t), filepath.Join(t.TempDir(), "log")
		d := workingDir(t, protector(t, namespace, "selector = { match_labels = {} }\n min_available = \"1\"\n wait {}\n timeouts {\n create = \"2s\"\n}"),
			"TF_LOG_PROVIDER=INFO", "TF_LOG_PATH="+log)
		if out, err := d.Try("apply", "-auto-approve"); err != nil || !matchWrapped("it has no condition Ready: no controller has processed it yet.").MatchString(out) {
			t.Errorf("%v:\n%s", err, out)
		}
		said, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(said), "it has no condition Ready: no controller has processed it yet") || !strings.Contains(string(said), namespace+"/web") {
			t.Errorf("log does not contain the wait:\n%s", said)
		}
	})
}
