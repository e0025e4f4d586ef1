package operate_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// TestNight plays the faults that wake an on-call engineer, one after the other. For each it asserts what a user sees, and that the recovery leaves
// nothing behind. It counts requests, verdicts and exit codes; it measures no time.
func TestNight(t *testing.T) {
	claim(t, "users see each fault and its cause, and removals are admitted again after it", func(l *fixture) {
		const floor, pods = 4, 12
		l.CreateProtector(floor)
		l.CreateBarePods(l.Application(pods))
		l.WaitForReadyCells(func() error { return nil })
		for _, cell := range l.Cells {
			l.WaitForWebhooks(cell, l.ExistingPods(cell)[0])
		}
		for _, fault := range []struct {
			name string
			play func(*night)
		}{
			{"core frozen", (*night).freezeCore},
			{"webhook down", (*night).stopWebhooks},
			{"configuration deleted", (*night).deleteConfiguration},
			{"token revoked", (*night).revokeTokens},
		} {
			ended := l.TB.(*testing.T).Run(fault.name, func(t *testing.T) {
				own := *l
				own.TB = t
				n := &night{fixture: &own, cell: l.Cells[0], worker: l.Federation().Workers()[0], core: l.Federation().Cores()[0]}
				fault.play(n)
				n.expectAdmission()
				n.expectNoFindings()
			})
			if !ended {
				return // the next fault needs a federation without faults
			}
		}
	})
}

// freezeCore suspends the API server of the core, whose connections stay open.
func (n *night) freezeCore() {
	core, ok := n.core.(federation.Faults)
	if !ok {
		n.Fatal("the backend cannot freeze an API server")
	}
	pods, before := n.CountExistingPods(), n.removalCodes()
	n.Must(core.Freeze(federation.APIServer))
	thaw := n.onceAtEnd(func() { n.Must(core.Thaw(federation.APIServer)) })

	const silent = `core cluster "core" has been unreachable since`
	denied := n.deleteUntilDenied(silent)
	// Each replica of the webhook finds out by at most one request.
	if replicas := len(n.Breakwater.WebhookAddresses()); denied > replicas+1 {
		n.Errorf("%d removals were refused until a refusal named the core, want at most %d", denied, replicas+1)
	}
	for _, arguments := range [][]string{nil, {"--dry-run=server"}, {"--grace-period=0", "--force"}} {
		output, code := n.kubectlDelete(arguments...)
		expectOutput(n.fixture, output, code, 1, "Error from server (TooManyRequests)", silent, "PodProtector "+n.Namespace+"/web")
		denied++
	}
	n.expectCodes(before, map[string]int{"429": denied})
	if left := n.CountExistingPods(); left != pods {
		n.Errorf("%d of %d pods remain", left, pods)
	}

	output, code := runPlugin(n.fixture, n.cell, "explain", "pod/"+n.pod())
	expectOutput(n.fixture, output, code, 1, "the verdict is unknown", "does not answer",
		"known so far: pod "+n.Namespace+"/"+n.pod()+" exists in cell "+n.cell.Name)
	output, code = runPlugin(n.fixture, n.cell, "explain", "pod/"+n.pod(), "--ask")
	expectOutput(n.fixture, output, code, 2, silent)
	n.expectProblem(problem{where: "core", check: "apiserver", runbook: "core-down", found: "It does not answer"})
	n.expectProblem(problem{where: "cell " + n.cell.Name, check: "webhook", runbook: "core-down", found: "cannot reserve removals in a core", cause: silent})
	thaw()
}

// stopWebhooks ends all replicas of the webhook.
func (n *night) stopWebhooks() {
	pods, before := n.CountExistingPods(), n.removalCodes()
	start := n.onceAtEnd(func() {
		for i := range n.Breakwater.WebhookAddresses() {
			n.Must(n.Breakwater.Restart(n.endContext(), install.WebhookName(i)))
		}
	})
	for i := range n.Breakwater.WebhookAddresses() {
		n.Must(n.Breakwater.Terminate(install.WebhookName(i)))
	}
	for _, arguments := range [][]string{nil, {"--dry-run=server"}} {
		output, code := n.kubectlDelete(arguments...)
		expectOutput(n.fixture, output, code, 1, "Error from server (InternalError)", `failed calling webhook "pods.breakwater.dev"`)
	}
	n.expectCodes(before, map[string]int{"500": 2})
	if left := n.CountExistingPods(); left != pods {
		n.Errorf("%d of %d pods remain", left, pods)
	}
	for _, worker := range n.Federation().Workers() {
		n.expectProblem(problem{where: "cell " + worker.Name(), check: "webhook", runbook: "webhook-down", found: "gets no answer from it, and denies every removal"})
	}
	start()
}

// deleteConfiguration deletes the ValidatingWebhookConfiguration of the worker while the protector has no budget.
func (n *night) deleteConfiguration() {
	lower := n.exhaustBudget()
	pods, before := n.CountExistingPods(), n.reviews()
	restore := n.onceAtEnd(func() { n.Must(n.Breakwater.ConfigureWorker(n.endContext(), n.worker)) })
	n.Must(n.cell.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(n.Context(), "breakwater-cell-"+n.cell.Name, metav1.DeleteOptions{}))

	// The API server notices the deletion a moment later.
	n.Eventually(func() string {
		if output, code := n.kubectlDelete("--dry-run=server"); code != 0 {
			return "removals are still reviewed: " + output
		}
		before = n.reviews()
		return ""
	})
	output, code := n.kubectlDelete()
	expectOutput(n.fixture, output, code, 0, "deleted")
	if reviews := n.reviews(); reviews != before {
		n.Errorf("the webhook reviewed %v removals without a configuration, want 0", reviews-before)
	}
	if left := n.CountExistingPods(); left != pods-1 {
		n.Errorf("%d pods remain, want %d", left, pods-1)
	}

	n.waitForCondition(v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonWebhookMissing)
	expectFragments(n.fixture, pluginOutput(n.fixture, "status"), "not guarded Removals in "+n.cell.Name+
		" are not checked: its pods can be removed without limit. -> docs/runbooks/cell-unguarded.md")
	expectFragments(n.fixture, pluginOutput(n.fixture, "cells"), n.cell.Name+" notGuarded yes NO", "Guarded False WebhookMissing")
	if column := n.guardedColumn(); column != "False" {
		n.Errorf("kubectl get cells shows Guarded %q, want False", column)
	}
	n.expectProblem(problem{where: "cell " + n.cell.Name, check: "guarding", runbook: "cell-unguarded", found: "does not send removals of its pods to Breakwater"})
	n.expectProblem(problem{where: "core", check: "cells", runbook: "cell-unguarded", found: "Cell " + n.cell.Name})

	restore()
	n.waitForCondition(v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured)
	n.Eventually(func() string {
		if output, code := n.kubectlDelete("--dry-run=server"); code != 1 || !strings.Contains(output, "Error from server (TooManyRequests)") {
			return "removals are not reviewed yet: " + output
		}
		return ""
	})
	output, code = n.kubectlDelete()
	expectOutput(n.fixture, output, code, 1, "Error from server (TooManyRequests)", "would have fewer pods available than its floor")
	if column := n.guardedColumn(); column != "True" {
		n.Errorf("kubectl get cells shows Guarded %q, want True", column)
	}
	lower()
}

// exhaustBudget raises the floor to the number of pods, and waits until removals are denied. It returns a function that restores the floor.
func (n *night) exhaustBudget() (restore func()) {
	n.Helper()
	floor := n.setFloor(v1alpha1.Pods(int32(n.CountExistingPods())))
	n.Eventually(func() string {
		if output, code := n.kubectlDelete("--dry-run=server"); code != 1 || !strings.Contains(output, "floor") {
			return "removals are not denied yet: " + output
		}
		return ""
	})
	return func() { n.setFloor(floor) }
}

// revokeTokens revokes the tokens with which the webhooks reach the core, and with which all components of the core reach the worker.
func (n *night) revokeTokens() {
	toCore, toWorker := n.issueToken(n.core), n.issueToken(n.worker)
	n.onceAtEnd(n.useCertificates)
	n.useTokens(toCore, toWorker)
	n.waitForCondition(v1alpha1.ConditionConnected, metav1.ConditionTrue, v1alpha1.ReasonConnected)
	n.expectAdmission() // with the tokens

	pods, before := n.CountExistingPods(), n.removalCodes()
	toCore.revoke()
	toWorker.revoke()
	const rejected = "its API server does not accept the credentials of the webhook"
	denied := 0
	deny := func(arguments ...string) {
		output, code := n.kubectlDelete(arguments...)
		expectOutput(n.fixture, output, code, 1, "Error from server (TooManyRequests)", "could not be reserved with PodProtector "+n.Namespace+"/web", rejected)
		denied++
	}
	for range n.Breakwater.WebhookAddresses() {
		deny()
	}
	n.Eventually(func() string { // BreakwaterCoreDown is active then
		if up := n.webhookMetric("breakwater_webhook_core_up", ""); up != 0 {
			return fmt.Sprintf("%v replicas of the webhook report that they reach the core, want 0", up)
		}
		return ""
	})
	deny("--dry-run=server")
	deny()
	n.expectCodes(before, map[string]int{"429": denied})
	output, code := runPlugin(n.fixture, n.cell, "explain", "pod/"+n.pod(), "--ask")
	expectOutput(n.fixture, output, code, 3, "allowed", "Answer of the API server: denied with code 429", "credentials")
	unread := `cannot be read from cell "` + n.cell.Name + `": ` + rejected
	if err := n.EvictPod(n.cell, n.pod()); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), unread) {
		n.Errorf("an eviction ended with %v, want a refusal with %q", err, unread)
	}
	if left := n.CountExistingPods(); left != pods {
		n.Errorf("%d of %d pods remain", left, pods)
	}

	n.waitForCondition(v1alpha1.ConditionConnected, metav1.ConditionFalse, v1alpha1.ReasonUnauthorized)
	cause := n.worker.RESTConfig().Host + " does not accept the credentials of the kubeconfig: put new ones into the Secret"
	disconnected := "Cell " + n.cell.Name + ": Connected=False (Unauthorized)"
	n.expectProblem(problem{where: "cell " + n.cell.Name, check: "webhook", runbook: "cell-guard-unknown", found: "refuses to evict any", cause: rejected})
	n.expectProblem(problem{where: "cell " + n.Cells[1].Name, check: "webhook", runbook: "core-down", found: "cannot reserve removals in a core", cause: rejected})
	n.expectProblem(problem{where: "core", check: "cells", runbook: "cell-guard-unknown", found: disconnected, cause: cause})
	expectFragments(n.fixture, pluginOutput(n.fixture, "cells"), n.cell.Name+" notConnected NO", cause)
	expectFragments(n.fixture, pluginOutput(n.fixture, "status"), "guard unknown It is unknown whether removals in "+n.cell.Name+" are checked")

	n.useTokens(n.issueToken(n.core), n.issueToken(n.worker))
	n.waitForCondition(v1alpha1.ConditionConnected, metav1.ConditionTrue, v1alpha1.ReasonConnected)
	n.waitForCondition(v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured)
}

// waitForCondition waits until the Cell of the worker has a condition with a status and a reason.
func (n *night) waitForCondition(kind string, status metav1.ConditionStatus, reason string) {
	n.Helper()
	n.Eventually(func() string {
		cell := &v1alpha1.Cell{}
		if err := n.Core.Get(n.Context(), client.ObjectKey{Name: n.cell.Name}, cell); err != nil {
			return err.Error()
		}
		if got := meta.FindStatusCondition(cell.Status.Conditions, kind); got == nil || got.Status != status || got.Reason != reason {
			return fmt.Sprintf("condition %s is %+v, want %s because of %s", kind, got, status, reason)
		}
		return ""
	})
}

// expectAdmission waits until a removal is admitted, and until it is counted.
func (n *night) expectAdmission() {
	n.Helper()
	pods := n.CountExistingPods()
	n.Eventually(func() string {
		if output, code := n.kubectlDelete(); code != 0 {
			return "the removal is not admitted yet: " + output
		}
		return ""
	})
	if left := n.CountExistingPods(); left != pods-1 {
		n.Errorf("%d pods remain, want %d", left, pods-1)
	}
	n.WaitForSummary(e2e.AllAvailable(pods - 1))
}
