package living_test

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/e2e"
)

// command is a kubectl that runs against the cell here.
type command struct {
	*lab
	*e2e.Command
}

func drain(l *lab, node string, arguments ...string) *command {
	l.Helper()
	return run(l, append([]string{"drain", node}, arguments...)...)
}

func run(l *lab, arguments ...string) *command {
	l.Helper()
	return &command{l, e2e.StartTool(l.Context(), l, "kubectl", l.Federation().Workers()[0].Kubeconfig(), arguments...)}
}

// awaitWords waits until kubectl has said something so many times.
func (c *command) awaitWords(times int, words string) {
	c.Helper()
	c.Eventually(func() string {
		if got := strings.Count(c.String(), words); got < times {
			return fmt.Sprintf("kubectl said %q %d times, want %d:\n%s", words, got, times, c)
		}
		return ""
	})
}

// exitCode waits for the end.
func (c *command) exitCode() int {
	c.Helper()
	c.Eventually(func() string {
		if c.HasEnded() {
			return ""
		}
		return "kubectl still runs:\n" + c.String()
	})
	err := c.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	c.Must(err)
	return 0
}

// fillNode makes pods on a node of the test and others elsewhere, and then another node, where replacements find room.
func fillNode(l *lab, on, beside int32) string {
	l.Helper()
	node := addNode(l, "first", 0)
	deploy(l, here(l), "here", on, inRoom(l))
	deploy(l, elsewhere(l), "elsewhere", beside)
	awaitOnNode(l, node, int(on))
	addNode(l, "second", 0)
	return node
}

func TestKubectlDrain(t *testing.T) {
	claim(t, "kubectl drain tells of each refusal and tries again, and ends with 0 when there is budget for one pod at a time", func(l *lab) {
		node := fillNode(l, 2, 2)
		k := keep(l, 4, 4)
		c := drain(l, node)
		c.awaitWords(2, refusalWords)
		c.awaitWords(2, "(will retry after 5s): admission webhook")
		c.awaitWords(1, fmt.Sprintf("PodProtector %s/web in core cluster %q would have fewer pods available than its floor (floor 4, available 4, removals under way 0)",
			l.Namespace, l.Core.Name))
		k.untouched()

		scale(l, elsewhere(l), "elsewhere", 3)
		if code := c.exitCode(); code != 0 || !strings.Contains(c.String(), "node/"+node+" drained") {
			l.Errorf("kubectl ended with %d and said:\n%s", code, c)
		}
		awaitOnNode(l, node, 0)
		l.AwaitSummary(e2e.AllAvailable(5))
	})
}

func TestKubectlDrainByDeletion(t *testing.T) {
	claim(t, "kubectl drain --disable-eviction ends with 1 at its first refusal, and with 0 when it is called again with budget for all", func(l *lab) {
		node := fillNode(l, 2, 2)
		k := keep(l, 4, 4)
		c := drain(l, node, "--disable-eviction")
		if code := c.exitCode(); code != 1 || strings.Count(c.String(), "Error from server (TooManyRequests): admission webhook") != 1 {
			l.Errorf("kubectl ended with %d and said:\n%s", code, c)
		}
		k.untouched()
		cordoned, err := here(l).Client.CoreV1().Nodes().Get(l.Context(), node, metav1.GetOptions{})
		l.Must(err)
		if !cordoned.Spec.Unschedulable {
			l.Error("the node is not cordoned any more")
		}

		scale(l, elsewhere(l), "elsewhere", 4)
		l.AwaitSummary(e2e.AllAvailable(6))
		again := drain(l, node, "--disable-eviction")
		if code := again.exitCode(); code != 0 {
			l.Errorf("kubectl ended with %d and said:\n%s", code, again)
		}
		awaitOnNode(l, node, 0)
	})
}

// kubectl asks every 5 s, which renews the reservation: the admission deadline, of 12 s here, does not pass meanwhile.
func TestADisruptionBudgetOnTop(t *testing.T) {
	claim(t, "what a PodDisruptionBudget refuses costs budget while a drain asks for it, which returns when the drain is given up", func(l *lab) {
		node := fillNode(l, 2, 2)
		forbidEvictions(l)
		keep(l, 4, 2)
		c := drain(l, node)
		c.awaitWords(6, "(will retry after 5s): Cannot evict pod as it would violate the pod's disruption budget.")
		other := l.Pods(elsewhere(l))[0].Name
		l.WantRefusal(l.Remove(elsewhere(l), other), "floor 2, available 4, removals under way 2")
		if strings.Contains(c.String(), refusalWords) {
			l.Errorf("a repeated request was charged anew:\n%s", c)
		}

		l.Must(c.Interrupt())
		_ = c.Wait() // interrupted
		l.AwaitSummary(e2e.AllAvailable(4))
		l.Must(l.Remove(elsewhere(l), other))
		l.AwaitSummary(e2e.AllAvailable(4))

		l.Must(here(l).Client.PolicyV1().PodDisruptionBudgets(l.Namespace).Delete(l.Context(), "web", metav1.DeleteOptions{}))
		again := drain(l, node)
		if code := again.exitCode(); code != 0 {
			l.Errorf("kubectl ended with %d and said:\n%s", code, again)
		}
		l.AwaitSummary(e2e.AllAvailable(4))
	})
}

// forbidEvictions makes a PodDisruptionBudget that allows none, and waits until it is in force.
func forbidEvictions(l *lab) {
	l.Helper()
	none := intstr.FromInt32(0)
	budgets := here(l).Client.PolicyV1().PodDisruptionBudgets(l.Namespace)
	_, err := budgets.Create(l.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}, metav1.CreateOptions{})
	l.Must(err)
	l.Eventually(func() string {
		budget, err := budgets.Get(l.Context(), "web", metav1.GetOptions{})
		if err != nil || budget.Status.ObservedGeneration != budget.Generation {
			return fmt.Sprintf("the PodDisruptionBudget is not in force: %v", err)
		}
		return ""
	})
}
