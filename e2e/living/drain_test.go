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

// kubectlCommand is a kubectl process that runs against the cell here.
type kubectlCommand struct {
	*fixture
	*e2e.Command
}

func startDrain(l *fixture, node string, arguments ...string) *kubectlCommand {
	l.Helper()
	return startKubectl(l, append([]string{"drain", node}, arguments...)...)
}

func startKubectl(l *fixture, arguments ...string) *kubectlCommand {
	l.Helper()
	return &kubectlCommand{l, e2e.StartTool(l.Context(), l, "kubectl", l.Federation().Workers()[0].Kubeconfig(), arguments...)}
}

// waitForText waits until kubectl has printed a text at least the given number of times.
func (c *kubectlCommand) waitForText(times int, text string) {
	c.Helper()
	c.Eventually(func() string {
		if got := strings.Count(c.String(), text); got < times {
			return fmt.Sprintf("kubectl printed %q %d times, want %d:\n%s", text, got, times, c)
		}
		return ""
	})
}

// exitCode waits until kubectl ends, and returns its exit code.
func (c *kubectlCommand) exitCode() int {
	c.Helper()
	c.Eventually(func() string {
		if c.HasEnded() {
			return ""
		}
		return "kubectl is still running:\n" + c.String()
	})
	err := c.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	c.Must(err)
	return 0
}

// createPodsOnNode creates pods on a node of the test and others in the cell elsewhere, and returns the name of the node. Then it adds a second
// node, which has capacity for replacements.
func createPodsOnNode(l *fixture, on, beside int32) string {
	l.Helper()
	node := addNode(l, "first", 0)
	createDeployment(l, here(l), "here", on, onTestNodes(l))
	createDeployment(l, elsewhere(l), "elsewhere", beside)
	waitForPodsOnNode(l, node, int(on))
	addNode(l, "second", 0)
	return node
}

func TestKubectlDrain(t *testing.T) {
	claim(t, "kubectl drain prints each denial, retries, and exits with 0 when budget for one pod at a time exists", func(l *fixture) {
		node := createPodsOnNode(l, 2, 2)
		k := startFloorWatch(l, 4, 4)
		c := startDrain(l, node)
		c.waitForText(2, denialText)
		c.waitForText(2, "(will retry after 5s): admission webhook")
		c.waitForText(1, fmt.Sprintf("PodProtector %s/web in core cluster %q would have fewer pods available than its floor (floor 4, available 4, removals under way 0)",
			l.Namespace, l.Core.Name))
		k.expectNoRemoval()

		scaleDeployment(l, elsewhere(l), "elsewhere", 3)
		if code := c.exitCode(); code != 0 || !strings.Contains(c.String(), "node/"+node+" drained") {
			l.Errorf("kubectl exited with %d and printed:\n%s", code, c)
		}
		waitForPodsOnNode(l, node, 0)
		l.WaitForSummary(e2e.AllAvailable(5))
	})
}

func TestKubectlDrainByDeletion(t *testing.T) {
	claim(t, "kubectl drain --disable-eviction exits with 1 at its first denial, and with 0 when it runs again with budget for all", func(l *fixture) {
		node := createPodsOnNode(l, 2, 2)
		k := startFloorWatch(l, 4, 4)
		c := startDrain(l, node, "--disable-eviction")
		if code := c.exitCode(); code != 1 || strings.Count(c.String(), "Error from server (TooManyRequests): admission webhook") != 1 {
			l.Errorf("kubectl exited with %d and printed:\n%s", code, c)
		}
		k.expectNoRemoval()
		cordoned, err := here(l).Client.CoreV1().Nodes().Get(l.Context(), node, metav1.GetOptions{})
		l.Must(err)
		if !cordoned.Spec.Unschedulable {
			l.Error("the node is no longer cordoned")
		}

		scaleDeployment(l, elsewhere(l), "elsewhere", 4)
		l.WaitForSummary(e2e.AllAvailable(6))
		again := startDrain(l, node, "--disable-eviction")
		if code := again.exitCode(); code != 0 {
			l.Errorf("kubectl exited with %d and printed:\n%s", code, again)
		}
		waitForPodsOnNode(l, node, 0)
	})
}

// kubectl drain retries every 5 s, which renews the reservation: the admission deadline, which is 12 s here, does not pass.
func TestDrainWithPodDisruptionBudget(t *testing.T) {
	claim(t, "an eviction that a PodDisruptionBudget denies consumes budget while a drain retries it, and releases it when the drain stops", func(l *fixture) {
		node := createPodsOnNode(l, 2, 2)
		createForbiddingBudget(l)
		startFloorWatch(l, 4, 2)
		c := startDrain(l, node)
		c.waitForText(6, "(will retry after 5s): Cannot evict pod as it would violate the pod's disruption budget.")
		other := l.ExistingPods(elsewhere(l))[0].Name
		l.ExpectDenial(l.DeletePod(elsewhere(l), other), "floor 2, available 4, removals under way 2")
		if strings.Contains(c.String(), denialText) {
			l.Errorf("a repeated request was charged again:\n%s", c)
		}

		l.Must(c.Interrupt())
		_ = c.Wait() // interrupted
		l.WaitForSummary(e2e.AllAvailable(4))
		l.Must(l.DeletePod(elsewhere(l), other))
		l.WaitForSummary(e2e.AllAvailable(4))

		l.Must(here(l).Client.PolicyV1().PodDisruptionBudgets(l.Namespace).Delete(l.Context(), "web", metav1.DeleteOptions{}))
		again := startDrain(l, node)
		if code := again.exitCode(); code != 0 {
			l.Errorf("kubectl exited with %d and printed:\n%s", code, again)
		}
		l.WaitForSummary(e2e.AllAvailable(4))
	})
}

// createForbiddingBudget creates a PodDisruptionBudget that allows no disruption, and waits until it is in force.
func createForbiddingBudget(l *fixture) {
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
