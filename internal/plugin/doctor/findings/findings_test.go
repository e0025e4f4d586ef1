package findings_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

const day = 24 * time.Hour

// finding is an expected finding: its cluster, its check, and a part of its text.
type finding struct {
	where, check string
	findings.Verdict
	words, runbook string
}

type broken map[string]struct {
	change func(*findings.Inspection)
	want   finding
}

// run applies one change after the other. It expects exactly the given finding besides OK findings.
func (all broken) run(t *testing.T, trusted *signer) {
	t.Helper()
	for claim, test := range all {
		t.Run(claim, func(t *testing.T) {
			r := healthy(t, trusted)
			test.change(r)
			found := slices.DeleteFunc(findings.Judge(r), func(f findings.Finding) bool { return f.Verdict == findings.OK })
			if len(found) != 1 {
				t.Fatalf("Judge() = %d findings, want 1: %+v", len(found), found)
			}
			f, want := found[0], test.want
			if f.Where != want.where || f.Check != want.check || f.Verdict != want.Verdict || f.Runbook != want.runbook || !strings.Contains(f.Found, want.words) {
				t.Errorf("Judge() found %+v, want %+v", f, want)
			}
			if f.Do == "" {
				t.Errorf("finding %+v has no remedy in Do, want one", f)
			}
		})
	}
}

var (
	forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no"))
	noSuchPod = apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "breakwater-doctor")
)

func core(change func(*findings.Core)) func(*findings.Inspection) {
	return func(r *findings.Inspection) { change(&r.Cores[0]) }
}

func checkCell(change func(*findings.Cell)) func(*findings.Inspection) {
	return func(r *findings.Inspection) { change(&r.Cells[0]) }
}

func TestJudgeReportsCores(t *testing.T) {
	ofCell := func(change func(*v1alpha1.Cell)) func(*findings.Inspection) {
		return core(func(c *findings.Core) { change(&c.Cells.Value[0]) })
	}
	broken{
		"its API server is unreachable": {core(func(c *findings.Core) { c.Clock.Err = errors.New("connection refused") }),
			finding{"core", "apiserver", findings.Problem, "connection refused", "core-down"}},
		"a CRD is missing": {core(func(c *findings.Core) { c.Definitions.Value = c.Definitions.Value[1:] }),
			finding{"core", "crds", findings.Problem, "cells.breakwater.dev does not exist", ""}},
		"a CRD is of another version": {core(func(c *findings.Core) { c.Definitions.Value[1] = definition("podprotectors.breakwater.dev", "another") }),
			finding{"core", "crds", findings.Warning, "podprotectors.breakwater.dev", ""}},
		"a CRD is being deleted": {core(func(c *findings.Core) { c.Definitions.Value[0].DeletionTimestamp = &metav1.Time{Time: now} }),
			finding{"core", "crds", findings.Problem, "is being deleted", ""}},
		"a CRD is not served": {core(func(c *findings.Core) { c.Definitions.Value[0].Status.Conditions = nil }),
			finding{"core", "crds", findings.Problem, "is not served", ""}},
		"CRDs cannot be read": {core(func(c *findings.Core) { c.Definitions.Value, c.Definitions.Err = nil, forbidden }),
			finding{"core", "crds", findings.Unknown, "forbidden", ""}},
		"there are no Cells": {core(func(c *findings.Core) { c.Cells.Value, c.Protectors.Value = []v1alpha1.Cell{}, nil }),
			finding{"core", "cells", findings.Problem, "There are no Cells", ""}},
		"a Cell is silent": {ofCell(func(c *v1alpha1.Cell) {
			c.Status.Aggregator.LastHeartbeat = &metav1.MicroTime{Time: now.Add(-61 * time.Second)}
		}),
			finding{"core", "cells", findings.Problem, "Cell a is silent: its aggregator (last holder: one)", "cell-silent"}},
		"a Cell was never counted": {ofCell(func(c *v1alpha1.Cell) { c.Status.Aggregator = v1alpha1.CellAggregator{} }),
			finding{"core", "cells", findings.Problem, "never counted", "cell-silent"}},
		"a Cell is not guarded": {ofCell(func(c *v1alpha1.Cell) { c.Status.Conditions[3].Status = metav1.ConditionFalse }),
			finding{"core", "cells", findings.Problem, "Guarded=False", "cell-unguarded"}},
		"a Cell is not connected": {ofCell(func(c *v1alpha1.Cell) {
			c.Status.Conditions[2].Status, c.Status.Conditions[3].Status = metav1.ConditionFalse, metav1.ConditionUnknown
		}),
			finding{"core", "cells", findings.Problem, "Connected=False", "cell-guard-unknown"}},
		"the token of a Cell cannot be renewed": {ofCell(func(c *v1alpha1.Cell) {
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionTokenRenewed, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRenewalFailed,
				Message: "The token of the kubeconfig expires at 2026-12-25T09:00:00Z and cannot be renewed: no right.",
			})
		}), finding{"core", "tokens", findings.Warning, "Cell a: The token of the kubeconfig expires at 2026-12-25T09:00:00Z", "token-expiring"}},
		"a Cell is being deleted": {ofCell(func(c *v1alpha1.Cell) { c.DeletionTimestamp = &metav1.Time{Time: now} }),
			finding{"core", "cells", findings.Warning, "is being deleted", ""}},
		"a vanished protector still denies removals": {core(func(c *findings.Core) {
			c.Denials.Value = []denial.Denial{{Namespace: "shop", Protector: "gone", Verdict: "Vanished"}, {Namespace: "shop", Protector: "web", Verdict: "Vanished"}}
		}), finding{"core", "vanished", findings.Problem, "from the memory of webhooks: shop/gone.", "protectors-vanished"}},
		"an object is held for long": {core(func(c *findings.Core) {
			c.Terminating.Value = []findings.TerminatingObject{{Name: "Deployment shop/a", Deleted: now.Add(-6 * time.Minute)}, {Name: "Deployment shop/b", Deleted: now.Add(-time.Minute)}}
		}), finding{"core", "finalizers", findings.Warning, "of Breakwater: Deployment shop/a.", ""}},
		"a pod is not ready": {core(func(c *findings.Core) { c.Pods.Value = []corev1.Pod{pod("generator", "breakwater:v1", false)} }),
			finding{"core", "pods", findings.Warning, "breakwater-system/generator-0 (generator)", "generator-down"}},
		"components differ": {core(func(c *findings.Core) { c.Pods.Value[0].Spec.Containers[0].Image = "registry:5000/breakwater:v2" }),
			finding{"all", "versions", findings.Warning, "v1 is webhook in cell a; v2 is generator in core", ""}},
		"a component lacks a right": {core(func(c *findings.Core) { c.Permissions.Value[1].Allowed = false }),
			finding{"core", "rights", findings.Problem, "system:serviceaccount:s:generator lacks permission to patch cells", ""}},
		"the user lacks a right": {core(func(c *findings.Core) { c.Permissions.Value[0].Allowed = false }),
			finding{"core", "rights", findings.Warning, "You lack permission to list cells", ""}},
		"its clock is ahead": {core(func(c *findings.Core) {
			c.Clock.Value = findings.Clock{Ahead: 2 * time.Minute, Uncertainty: time.Second}
		}),
			finding{"core", "clock", findings.Warning, "2m0s ahead", "clock-skew"}},
		"the clock here is behind": {func(r *findings.Inspection) {
			r.Cores[0].Clock.Value, r.Cells[0].Clock.Value = findings.Clock{Ahead: time.Minute, Uncertainty: time.Second}, findings.Clock{Ahead: time.Minute, Uncertainty: time.Second}
		}, finding{"here", "clock", findings.Warning, "1m0s behind", "clock-skew"}},
	}.run(t, newSigner(t, 1000*day))
}

// decreasing returns the conditions of a protector with a pending decrease.
func decreasing(reason string) []metav1.Condition {
	return []metav1.Condition{{
		Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: reason, Message: "Deployment web was deleted, which would release the floor of 9.",
	}}
}

// expectsTooFew changes a protector to a floor that is one pod less than expected, and too few are expected for longer than a rollout.
func expectsTooFew(expected int32) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) {
		p.Spec.MinAvailable, p.Spec.MaxUnavailable, p.Spec.ExpectedReplicas = nil, v1alpha1.Pods(1), &expected
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionExpectationBelowPods, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMorePodsThanExpected}}
	}
}

func TestJudgeIgnoresDecreaseInQuietPeriod(t *testing.T) {
	r := healthy(t, newSigner(t, 1000*day))
	r.Cores[0].Protectors.Value[0].Status.Conditions = decreasing(v1alpha1.ReasonQuietPeriod)
	if all := findings.Judge(r); findings.Worst(all) != findings.OK {
		t.Errorf("Judge() = %+v, want nothing wrong", all)
	}
}

func TestJudgeReportsProtectors(t *testing.T) {
	with := func(change func(*v1alpha1.PodProtector)) func(*findings.Inspection) {
		return core(func(c *findings.Core) { c.Protectors.Value[0] = protector(change) })
	}
	reserved := func(age time.Duration) []v1alpha1.PodProtectorCell {
		cell := v1alpha1.PodProtectorCell{CellID: "a"}
		cell.Aggregation.TotalReplicas, cell.Aggregation.CountedReplicas = 10, 10
		cell.AdmissionHistory.Buckets = []v1alpha1.Bucket{{StartTime: metav1.NewMicroTime(now.Add(-age)), Counter: 1, PodUID: "u", PodName: "web-0"}}
		return []v1alpha1.PodProtectorCell{cell}
	}
	broken{
		"never counted": {with(func(p *v1alpha1.PodProtector) { p.Status.Cells = []v1alpha1.PodProtectorCell{} }),
			finding{"core", "protectors", findings.Problem, "Never counted in a cell, so all removals of their pods there are denied: shop/web in a.", "cell-silent"}},
		"never counted in one cell of two": {core(func(c *findings.Core) {
			second := c.Cells.Value[0].DeepCopy()
			second.Name = "b"
			c.Cells.Value = append(c.Cells.Value, *second)
		}), finding{"core", "protectors", findings.Problem, "shop/web in b.", "cell-silent"}},
		"full": {with(func(p *v1alpha1.PodProtector) {
			p.Spec.AdmissionHistory.MaxConcurrentLag, p.Status.Cells = 1, reserved(time.Second)
		}), finding{"core", "protectors", findings.Problem, "maxConcurrentLag", "reservations-full"}},
		"with an old reservation": {with(func(p *v1alpha1.PodProtector) { p.Status.Cells = reserved(5 * time.Minute) }),
			finding{"core", "protectors", findings.Problem, "Reservations are open", "reservations-not-settled"}},
		"below its floor": {with(func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = v1alpha1.Pods(11) }),
			finding{"core", "protectors", findings.Warning, "Below their floor", "floor-broken"}},
		"with an unknown floor": {with(func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = ptr.To(intstr.FromString("50%")) }),
			finding{"core", "protectors", findings.Problem, "The number of expected pods is unknown", "reviews-undecided"}},
		"whose workload expects none of the available pods": {with(expectsTooFew(1)),
			finding{"core", "protectors", findings.Problem, "Not protected: the floor is 0, because fewer pods are expected than are available, for longer than a rollout: shop/web (10 available, 1 expected).", "expectation-below-pods"}},
		"whose workloads expect too few pods": {with(expectsTooFew(4)),
			finding{"core", "protectors", findings.Warning, "The floor may be too low", "expectation-below-pods"}},
		"without its workload": {with(func(p *v1alpha1.PodProtector) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionTargetResolved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSourceVanished}}
		}), finding{"core", "protectors", findings.Warning, "workload vanished", "sources-vanished"}},
		"whose floor is held": {with(func(p *v1alpha1.PodProtector) { p.Status.Conditions = decreasing(v1alpha1.ReasonCascade) }),
			finding{"core", "protectors", findings.Warning, "The floor of 1 protector is held because a large decrease awaits confirmation: shop/web.", "decreases-held"}},
		"whose floors are held": {core(func(c *findings.Core) {
			for _, name := range []string{"a", "b", "c", "d", "e", "quiet"} {
				another := c.Protectors.Value[0].DeepCopy()
				another.Name, another.Status.Conditions = name, decreasing(v1alpha1.ReasonLimitExceeded)
				if name == "quiet" {
					another.Status.Conditions[0].Reason = v1alpha1.ReasonQuietPeriod
				}
				c.Protectors.Value = append(c.Protectors.Value, *another)
			}
			c.Protectors.Value[0].Status.Conditions = decreasing(v1alpha1.ReasonCascade)
		}), finding{"core", "protectors", findings.Warning, "The floors of 6 protectors are held because large decreases await confirmation: shop/web, shop/a, shop/b, shop/c, shop/d and 1 more.", "decreases-held"}},
		"deleted long ago, whose floor is held": {core(func(c *findings.Core) {
			c.Protectors.Value[0].Status.Conditions = decreasing(v1alpha1.ReasonLimitExceeded)
			c.Terminating.Value = []findings.TerminatingObject{{Name: "PodProtector shop/web", Deleted: now.Add(-time.Hour)}}
		}), finding{"core", "protectors", findings.Warning, "is held because a large decrease", "decreases-held"}},
		"stored before changes of labels were guarded": {with(func(p *v1alpha1.PodProtector) {
			p.Spec.Operations = []v1alpha1.Operation{v1alpha1.OperationEvict, v1alpha1.OperationDelete}
		}), finding{"core", "protectors", findings.Warning, "lacks Relabel (an old default): shop/web.", ""}},
		"counted in a cell without a Cell": {core(func(c *findings.Core) {
			c.Cells.Value[0].Name, c.Cells.Value[0].Spec.Namespaces = "b", []string{"another"}
		}),
			finding{"core", "protectors", findings.Warning, "whose Cell does not exist", ""}},
	}.run(t, newSigner(t, 1000*day))
}

// protectedScope changes the webhook of a cell to scope Protected.
func protectedScope(c *findings.Cell) {
	hook := &c.Configurations.Value[0].Webhooks[0]
	hook.NamespaceSelector.MatchExpressions = append(hook.NamespaceSelector.MatchExpressions, webhookconfig.ProtectedRequirement())
}

func TestJudgeReportsCells(t *testing.T) {
	trusted, other, spent := newSigner(t, 1000*day), newSigner(t, 1000*day), newSigner(t, -time.Hour)
	hook := func(change func(*findings.Hook)) func(*findings.Inspection) {
		return checkCell(func(c *findings.Cell) { change(&c.Hooks[0]) })
	}
	ignore := admissionregistrationv1.Ignore
	broken{
		"the cluster is unreachable": {checkCell(func(c *findings.Cell) { c.ConnectErr = errors.New("no context") }),
			finding{"cell a", "apiserver", findings.Unknown, "no context", ""}},
		"its API server is unreachable": {checkCell(func(c *findings.Cell) { c.Clock.Err = errors.New("connection refused") }),
			finding{"cell a", "apiserver", findings.Unknown, "connection refused", ""}},
		"no webhook is configured": {checkCell(func(c *findings.Cell) { c.Configurations.Value = nil }),
			finding{"cell a", "guarding", findings.Problem, "The API server does not send removals", "cell-unguarded"}},
		"two configurations send removals": {checkCell(func(c *findings.Cell) {
			second := *c.Configurations.Value[0].DeepCopy()
			second.Name = "applied-by-hand"
			c.Configurations.Value = append(c.Configurations.Value, second)
		}), finding{"cell a", "guarding", findings.Warning, "2 ValidatingWebhookConfigurations send its removals to the webhook: applied-by-hand, breakwater.", ""}},
		"removals pass while the webhook is down": {checkCell(func(c *findings.Cell) { c.Configurations.Value[0].Webhooks[0].FailurePolicy = &ignore }),
			finding{"cell a", "guarding", findings.Problem, "failurePolicy Ignore", "cell-unguarded"}},
		"a foreign match condition": {checkCell(func(c *findings.Cell) {
			c.Configurations.Value[0].Webhooks[0].MatchConditions = append(c.Configurations.Value[0].Webhooks[0].MatchConditions, admissionregistrationv1.MatchCondition{Name: "not-at-night"})
		}), finding{"cell a", "guarding", findings.Problem, "may admit removals without a review: not-at-night", "cell-unguarded"}},
		"its own match condition differs": {checkCell(func(c *findings.Cell) { c.Configurations.Value[0].Webhooks[0].MatchConditions[0].Expression = "false" }),
			finding{"cell a", "guarding", findings.Warning, "costs-availability of breakwater", "cell-unguarded"}},
		"a protector covers running pods of a Job": {checkCell(func(c *findings.Cell) { c.JobPods.Value = jobPods("shop", "web") }),
			finding{"cell a", "protectors", findings.Warning, "running pods of Jobs: shop/web (Job train).", ""}},
		"pods of Jobs cannot be read": {checkCell(func(c *findings.Cell) { c.JobPods.Err = forbidden }),
			finding{"cell a", "protectors", findings.Unknown, "forbidden", ""}},
		"configurations cannot be read": {checkCell(func(c *findings.Cell) { c.Configurations.Err = forbidden }),
			finding{"cell a", "guarding", findings.Unknown, "forbidden", ""}},
		"the webhook does not answer": {checkCell(func(c *findings.Cell) {
			c.EvictionAnswer = apierrors.NewInternalError(errors.New("failed calling webhook: connection refused"))
		}), finding{"cell a", "webhook", findings.Problem, "connection refused", "webhook-down"}},
		"the webhook does not reach a core": {checkCell(func(c *findings.Cell) {
			answer := removal.Deny(&removal.Denial{Cause: removal.CauseNoPod, Detail: `core cluster "core": no credentials`}).Answer("a", removal.Request{PodName: "breakwater-doctor", Namespace: "shop"})
			c.EvictionAnswer = &apierrors.StatusError{ErrStatus: *answer.Status}
		}), finding{"cell a", "webhook", findings.Problem, `except by shares: core cluster "core": no credentials.`, "core-down"}},
		"the webhook cannot read pods": {checkCell(func(c *findings.Cell) {
			answer := removal.Deny(&removal.Denial{Cause: removal.CauseUnreadPod, Detail: "no credentials"}).Answer("a", removal.Request{PodName: "breakwater-doctor", Namespace: "shop"})
			c.EvictionAnswer = &apierrors.StatusError{ErrStatus: *answer.Status}
		}), finding{"cell a", "webhook", findings.Problem, `refuses to evict any: from cell "a": no credentials.`, "cell-guard-unknown"}},
		"its certificate has expired for the API server": {checkCell(func(c *findings.Cell) {
			c.EvictionAnswer = apierrors.NewInternalError(errors.New("failed calling webhook: x509: certificate has expired or is not yet valid"))
		}), finding{"cell a", "webhook", findings.Problem, "has expired", "certificate-expired"}},
		"the user lacks permission for the dry run": {checkCell(func(c *findings.Cell) { c.EvictionAnswer = forbidden }),
			finding{"cell a", "webhook", findings.Unknown, "forbidden", ""}},
		"it presents no certificate": {hook(func(h *findings.Hook) { h.Chain.Err = errors.New("EOF") }),
			finding{"cell a", "certificate", findings.Problem, "did not present a certificate: EOF", "webhook-down"}},
		"it has expired": {hook(func(h *findings.Hook) { h.Chain.Value = trusted.serve(t, "hook", -3*time.Hour) }),
			finding{"cell a", "certificate", findings.Problem, "expired 3h ago", "certificate-expired"}},
		"it expires soon": {hook(func(h *findings.Hook) { h.Chain.Value = trusted.serve(t, "hook", 13*day+time.Hour) }),
			finding{"cell a", "certificate", findings.Warning, "expires in 13d", "certificate-expiring"}},
		"it is for another name": {hook(func(h *findings.Hook) { h.Host = "other" }),
			finding{"cell a", "certificate", findings.Problem, "is not valid for other", "certificate-expired"}},
		"another CA signed it": {hook(func(h *findings.Hook) { h.Bundle = other.bundle() }),
			finding{"cell a", "certificate", findings.Problem, "does not verify", "webhook-down"}},
		"the bundle has expired": {hook(func(h *findings.Hook) { h.Bundle = spent.bundle() }),
			finding{"cell a", "certificate", findings.Problem, "All CA certificates", "certificate-expired"}},
		"the bundle of a Service is empty": {hook(func(h *findings.Hook) { h.Bundle, h.InClusterOnly = nil, true }),
			finding{"cell a", "certificate", findings.Problem, "holds no certificate", "certificate-expired"}},
		"the webhook denies a request without charge": {hook(func(h *findings.Hook) { h.Answer = errors.New("denies a request that consumes no budget: no") }),
			finding{"cell a", "certificate", findings.Problem, "denies a request that consumes no budget", "webhook-down"}},
		"a namespace is exempt": {checkCell(func(c *findings.Cell) { c.NamespaceObjects.Value[0].Labels[v1alpha1.LabelExempt] = "true" }),
			finding{"cell a", "exempt", findings.Problem, "Namespace shop has protectors", ""}},
		"the label of a namespace with protectors is missing": {checkCell(protectedScope),
			finding{"cell a", "exempt", findings.Problem, "the namespace is not labeled breakwater.dev/protected=true", ""}},
		"no namespace has protectors, so that no webhook is called": {func(r *findings.Inspection) {
			r.Cores[0].Protectors.Value = nil
			protectedScope(&r.Cells[0])
			r.Cells[0].EvictionAnswer = noSuchPod
		}, finding{"cell a", "webhook", findings.Unknown, "No namespace is known to have the label", ""}},
		"no namespace is known, so that no webhook may have been called": {checkCell(func(c *findings.Cell) {
			protectedScope(c)
			c.NamespaceObjects.Value = nil
			c.EvictionAnswer = noSuchPod
		}), finding{"cell a", "webhook", findings.Unknown, "No namespace is known to have the label", ""}},
		"namespaces cannot be read with the kubeconfig of the Cell": {checkCell(func(c *findings.Cell) { c.UsesCellKubeconfig, c.NamespaceObjects.Err = true, forbidden }),
			finding{"cell a", "exempt", findings.Unknown, "forbidden", ""}},
	}.run(t, trusted)
}

// jobPods returns the metadata of two running pods of a Job.
func jobPods(namespace, app string) (pods []metav1.PartialObjectMetadata) {
	for _, name := range []string{"train-1", "train-2"} {
		labels := map[string]string{"app": app, findings.JobLabel: "train"}
		pods = append(pods, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}})
	}
	return pods
}

func TestJudgeAcceptsPodsOfJobsThatMayBeDeleted(t *testing.T) {
	for claim, change := range map[string]func(*findings.Inspection){
		"no protector selects them":          checkCell(func(c *findings.Cell) { c.JobPods.Value = jobPods("shop", "other") }),
		"they are in another namespace":      checkCell(func(c *findings.Cell) { c.JobPods.Value = jobPods("bank", "web") }),
		"their namespace is not of the cell": checkCell(func(c *findings.Cell) { c.Namespaces = []string{"bank"} }),
		"they are exempt": core(func(c *findings.Core) {
			c.Protectors.Value[0].Spec.ExemptPodSelector = &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{
				{Key: findings.JobLabel, Operator: metav1.LabelSelectorOpExists},
			}}
		}),
		"the floor is 0": core(func(c *findings.Core) { c.Protectors.Value[0].Spec.MinAvailable = v1alpha1.Pods(0) }),
		"deletions are not guarded": core(func(c *findings.Core) {
			c.Protectors.Value[0].Spec.Operations = []v1alpha1.Operation{v1alpha1.OperationEvict, v1alpha1.OperationRelabel}
		}),
	} {
		t.Run(claim, func(t *testing.T) {
			r := healthy(t, newSigner(t, 1000*day))
			r.Cells[0].JobPods.Value = jobPods("shop", "web")
			change(r)
			for _, f := range findings.Judge(r) {
				if f.Check == "protectors" && strings.Contains(f.Found, "Job train") {
					t.Errorf("Judge() found %+v, want no finding about the Job", f)
				}
			}
		})
	}
}
