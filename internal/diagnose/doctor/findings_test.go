package doctor_test

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
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

const day = 24 * time.Hour

// finding is an expected finding: its cluster, its check, and a part of its text.
type finding struct {
	where, check string
	doctor.Verdict
	words, runbook string
}

type broken map[string]struct {
	breaks func(*doctor.Reading)
	want   finding
}

// run applies one change after the other. It expects exactly the given finding besides OK findings.
func (all broken) run(t *testing.T, trusted *signer) {
	t.Helper()
	for claim, test := range all {
		t.Run(claim, func(t *testing.T) {
			r := well(t, trusted)
			test.breaks(r)
			found := slices.DeleteFunc(doctor.Judge(r), func(f doctor.Finding) bool { return f.Verdict == doctor.OK })
			if len(found) != 1 {
				t.Fatalf("%d findings: %+v", len(found), found)
			}
			f, want := found[0], test.want
			if f.Where != want.where || f.Check != want.check || f.Verdict != want.Verdict || f.Runbook != want.runbook || !strings.Contains(f.Found, want.words) {
				t.Errorf("found %+v, want %+v", f, want)
			}
			if f.Do == "" {
				t.Errorf("it does not say what to do: %+v", f)
			}
		})
	}
}

var forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no"))

func core(change func(*doctor.Core)) func(*doctor.Reading) {
	return func(r *doctor.Reading) { change(&r.Cores[0]) }
}

func cell(change func(*doctor.Cell)) func(*doctor.Reading) {
	return func(r *doctor.Reading) { change(&r.Cells[0]) }
}

func TestWhatIsWrongInACore(t *testing.T) {
	ofCell := func(change func(*v1alpha1.Cell)) func(*doctor.Reading) {
		return core(func(c *doctor.Core) { change(&c.Cells.Value[0]) })
	}
	broken{
		"its apiserver is gone": {core(func(c *doctor.Core) { c.Clock.Err = errors.New("connection refused") }),
			finding{"core", "apiserver", doctor.Problem, "connection refused", "core-down"}},
		"a CRD is missing": {core(func(c *doctor.Core) { c.Definitions.Value = c.Definitions.Value[1:] }),
			finding{"core", "crds", doctor.Problem, "cells.breakwater.dev is not there", ""}},
		"a CRD is of another version": {core(func(c *doctor.Core) { c.Definitions.Value[1] = definition("podprotectors.breakwater.dev", "another") }),
			finding{"core", "crds", doctor.Warning, "podprotectors.breakwater.dev", ""}},
		"a CRD is being deleted": {core(func(c *doctor.Core) { c.Definitions.Value[0].DeletionTimestamp = &metav1.Time{Time: now} }),
			finding{"core", "crds", doctor.Problem, "is being deleted", ""}},
		"a CRD is not served": {core(func(c *doctor.Core) { c.Definitions.Value[0].Status.Conditions = nil }),
			finding{"core", "crds", doctor.Problem, "is not served", ""}},
		"CRDs may not be read": {core(func(c *doctor.Core) { c.Definitions.Value, c.Definitions.Err = nil, forbidden }),
			finding{"core", "crds", doctor.Unknown, "forbidden", ""}},
		"there are no Cells": {core(func(c *doctor.Core) { c.Cells.Value, c.Protectors.Value = []v1alpha1.Cell{}, nil }),
			finding{"core", "cells", doctor.Problem, "There are no Cells", ""}},
		"a Cell is silent": {ofCell(func(c *v1alpha1.Cell) {
			c.Status.Aggregator.LastHeartbeat = &metav1.MicroTime{Time: now.Add(-61 * time.Second)}
		}),
			finding{"core", "cells", doctor.Problem, "Cell a is silent: its aggregator, which was one", "cell-silent"}},
		"a Cell was never counted": {ofCell(func(c *v1alpha1.Cell) { c.Status.Aggregator = v1alpha1.CellAggregator{} }),
			finding{"core", "cells", doctor.Problem, "never counted", "cell-silent"}},
		"a Cell is not guarded": {ofCell(func(c *v1alpha1.Cell) { c.Status.Conditions[3].Status = metav1.ConditionFalse }),
			finding{"core", "cells", doctor.Problem, "Guarded=False", "cell-unguarded"}},
		"a Cell is being deleted": {ofCell(func(c *v1alpha1.Cell) { c.DeletionTimestamp = &metav1.Time{Time: now} }),
			finding{"core", "cells", doctor.Warning, "is being deleted", ""}},
		"a protector refused although it is gone": {core(func(c *doctor.Core) {
			c.Denials.Value = []denial.Denial{{Namespace: "shop", Protector: "gone", Verdict: "Vanished"}, {Namespace: "shop", Protector: "web", Verdict: "Vanished"}}
		}), finding{"core", "vanished", doctor.Problem, "from memory: shop/gone.", "protectors-vanished"}},
		"an object is held for long": {core(func(c *doctor.Core) {
			c.Held.Value = []doctor.Held{{Name: "Deployment shop/a", Deleted: now.Add(-6 * time.Minute)}, {Name: "Deployment shop/b", Deleted: now.Add(-time.Minute)}}
		}), finding{"core", "finalizers", doctor.Warning, "of Breakwater: Deployment shop/a.", ""}},
		"a pod is not ready": {core(func(c *doctor.Core) { c.Pods.Value = []corev1.Pod{pod("generator", "breakwater:v1", false)} }),
			finding{"core", "pods", doctor.Warning, "breakwater-system/generator-0 (generator)", "generator-down"}},
		"components differ": {core(func(c *doctor.Core) { c.Pods.Value[0].Spec.Containers[0].Image = "registry:5000/breakwater:v2" }),
			finding{"all", "versions", doctor.Warning, "v1 is webhook in cell a; v2 is generator in core", ""}},
		"a component lacks a right": {core(func(c *doctor.Core) { c.Rights.Value[1].Allowed = false }),
			finding{"core", "rights", doctor.Problem, "system:serviceaccount:s:generator may not patch cells", ""}},
		"the user lacks a right": {core(func(c *doctor.Core) { c.Rights.Value[0].Allowed = false }),
			finding{"core", "rights", doctor.Warning, "You may not list cells", ""}},
		"its clock is ahead": {core(func(c *doctor.Core) { c.Clock.Value = doctor.Clock{Ahead: 2 * time.Minute, Within: time.Second} }),
			finding{"core", "clock", doctor.Warning, "2m0s ahead", "clock-skew"}},
		"the clock here is behind": {func(r *doctor.Reading) {
			r.Cores[0].Clock.Value, r.Cells[0].Clock.Value = doctor.Clock{Ahead: time.Minute, Within: time.Second}, doctor.Clock{Ahead: time.Minute, Within: time.Second}
		}, finding{"here", "clock", doctor.Warning, "1m0s behind", "clock-skew"}},
	}.run(t, newSigner(t, 1000*day))
}

// decreasing returns the conditions of a protector with a pending decrease.
func decreasing(reason string) []metav1.Condition {
	return []metav1.Condition{{
		Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: reason, Message: "Deployment web was deleted, which would release the floor of 9.",
	}}
}

func TestADecreaseInItsQuietPeriodIsNoFinding(t *testing.T) {
	r := well(t, newSigner(t, 1000*day))
	r.Cores[0].Protectors.Value[0].Status.Conditions = decreasing(v1alpha1.ReasonQuietPeriod)
	if all := doctor.Judge(r); doctor.Worst(all) != doctor.OK {
		t.Errorf("Judge() = %+v, want nothing wrong", all)
	}
}

func TestWhatIsWrongWithProtectors(t *testing.T) {
	with := func(change func(*v1alpha1.PodProtector)) func(*doctor.Reading) {
		return core(func(c *doctor.Core) { c.Protectors.Value[0] = protector(change) })
	}
	reserved := func(age time.Duration) []v1alpha1.PodProtectorCell {
		cell := v1alpha1.PodProtectorCell{CellID: "a"}
		cell.Aggregation.TotalReplicas, cell.Aggregation.CountedReplicas = 10, 10
		cell.AdmissionHistory.Buckets = []v1alpha1.Bucket{{StartTime: metav1.NewMicroTime(now.Add(-age)), Counter: 1, PodUID: "u", PodName: "web-0"}}
		return []v1alpha1.PodProtectorCell{cell}
	}
	broken{
		"never counted": {with(func(p *v1alpha1.PodProtector) { p.Status.Cells = []v1alpha1.PodProtectorCell{} }),
			finding{"core", "protectors", doctor.Problem, "Never counted in a cell, where all removals of their pods are refused: shop/web in a.", "cell-silent"}},
		"never counted in one cell of two": {core(func(c *doctor.Core) {
			second := c.Cells.Value[0].DeepCopy()
			second.Name = "b"
			c.Cells.Value = append(c.Cells.Value, *second)
		}), finding{"core", "protectors", doctor.Problem, "shop/web in b.", "cell-silent"}},
		"full": {with(func(p *v1alpha1.PodProtector) {
			p.Spec.AdmissionHistory.MaxConcurrentLag, p.Status.Cells = 1, reserved(time.Second)
		}), finding{"core", "protectors", doctor.Problem, "maxConcurrentLag", "reservations-full"}},
		"with an old reservation": {with(func(p *v1alpha1.PodProtector) { p.Status.Cells = reserved(5 * time.Minute) }),
			finding{"core", "protectors", doctor.Problem, "Reservations are open", "reservations-not-settled"}},
		"below its floor": {with(func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = v1alpha1.Pods(11) }),
			finding{"core", "protectors", doctor.Warning, "Below their floor", "floor-broken"}},
		"whose floor nobody knows": {with(func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = ptr.To(intstr.FromString("50%")) }),
			finding{"core", "protectors", doctor.Problem, "how many pods are expected", "reviews-undecided"}},
		"without its workload": {with(func(p *v1alpha1.PodProtector) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionTargetResolved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSourceVanished}}
		}), finding{"core", "protectors", doctor.Warning, "workload is gone", "sources-vanished"}},
		"whose floor is held": {with(func(p *v1alpha1.PodProtector) { p.Status.Conditions = decreasing(v1alpha1.ReasonCascade) }),
			finding{"core", "protectors", doctor.Warning, "The floor of 1 protector is held although a large decrease of it was asked for: shop/web.", "decreases-held"}},
		"whose floors are held": {core(func(c *doctor.Core) {
			for _, name := range []string{"a", "b", "c", "d", "e", "quiet"} {
				another := c.Protectors.Value[0].DeepCopy()
				another.Name, another.Status.Conditions = name, decreasing(v1alpha1.ReasonLimitExceeded)
				if name == "quiet" {
					another.Status.Conditions[0].Reason = v1alpha1.ReasonQuietPeriod
				}
				c.Protectors.Value = append(c.Protectors.Value, *another)
			}
			c.Protectors.Value[0].Status.Conditions = decreasing(v1alpha1.ReasonCascade)
		}), finding{"core", "protectors", doctor.Warning, "The floors of 6 protectors are held although large decreases of them were asked for: shop/web, shop/a, shop/b, shop/c, shop/d and 1 more.", "decreases-held"}},
		"deleted long ago, whose floor is held": {core(func(c *doctor.Core) {
			c.Protectors.Value[0].Status.Conditions = decreasing(v1alpha1.ReasonLimitExceeded)
			c.Held.Value = []doctor.Held{{Name: "PodProtector shop/web", Deleted: now.Add(-time.Hour)}}
		}), finding{"core", "protectors", doctor.Warning, "is held although a large decrease", "decreases-held"}},
		"stored before changes of labels were guarded": {with(func(p *v1alpha1.PodProtector) {
			p.Spec.Operations = []v1alpha1.Operation{v1alpha1.OperationEvict, v1alpha1.OperationDelete}
		}), finding{"core", "protectors", doctor.Warning, "lacks Relabel, as older versions stored it: shop/web.", ""}},
		"counted in a cell that is none": {core(func(c *doctor.Core) {
			c.Cells.Value[0].Name, c.Cells.Value[0].Spec.Namespaces = "b", []string{"another"}
		}),
			finding{"core", "protectors", doctor.Warning, "of which there is no Cell", ""}},
	}.run(t, newSigner(t, 1000*day))
}

func TestWhatIsWrongInACell(t *testing.T) {
	trusted, other, spent := newSigner(t, 1000*day), newSigner(t, 1000*day), newSigner(t, -time.Hour)
	hook := func(change func(*doctor.Hook)) func(*doctor.Reading) {
		return cell(func(c *doctor.Cell) { change(&c.Hooks[0]) })
	}
	ignore := admissionregistrationv1.Ignore
	broken{
		"there is no way": {cell(func(c *doctor.Cell) { c.Way = errors.New("no context") }),
			finding{"cell a", "apiserver", doctor.Unknown, "no context", ""}},
		"its apiserver is gone": {cell(func(c *doctor.Cell) { c.Clock.Err = errors.New("connection refused") }),
			finding{"cell a", "apiserver", doctor.Unknown, "connection refused", ""}},
		"nobody is asked": {cell(func(c *doctor.Cell) { c.Configurations.Value = nil }),
			finding{"cell a", "guarding", doctor.Problem, "Nobody is asked", "cell-unguarded"}},
		"all pass while nobody answers": {cell(func(c *doctor.Cell) { c.Configurations.Value[0].Webhooks[0].FailurePolicy = &ignore }),
			finding{"cell a", "guarding", doctor.Problem, "failurePolicy Ignore", "cell-unguarded"}},
		"somebody else's condition": {cell(func(c *doctor.Cell) {
			c.Configurations.Value[0].Webhooks[0].MatchConditions = append(c.Configurations.Value[0].Webhooks[0].MatchConditions, admissionregistrationv1.MatchCondition{Name: "not-at-night"})
		}), finding{"cell a", "guarding", doctor.Problem, "may let removals pass unasked: not-at-night", "cell-unguarded"}},
		"its own condition says something else": {cell(func(c *doctor.Cell) { c.Configurations.Value[0].Webhooks[0].MatchConditions[0].Expression = "false" }),
			finding{"cell a", "guarding", doctor.Warning, "costs-availability of breakwater", "cell-unguarded"}},
		"configurations may not be read": {cell(func(c *doctor.Cell) { c.Configurations.Err = forbidden }),
			finding{"cell a", "guarding", doctor.Unknown, "forbidden", ""}},
		"the webhook does not answer": {cell(func(c *doctor.Cell) {
			c.Asked = apierrors.NewInternalError(errors.New("failed calling webhook: connection refused"))
		}), finding{"cell a", "webhook", doctor.Problem, "connection refused", "webhook-down"}},
		"its certificate has expired for the apiserver": {cell(func(c *doctor.Cell) {
			c.Asked = apierrors.NewInternalError(errors.New("failed calling webhook: x509: certificate has expired or is not yet valid"))
		}), finding{"cell a", "webhook", doctor.Problem, "has expired", "certificate-expired"}},
		"the user may not ask": {cell(func(c *doctor.Cell) { c.Asked = forbidden }),
			finding{"cell a", "webhook", doctor.Unknown, "forbidden", ""}},
		"it shows no certificate": {hook(func(h *doctor.Hook) { h.Chain.Err = errors.New("EOF") }),
			finding{"cell a", "certificate", doctor.Problem, "shows none: EOF", "webhook-down"}},
		"it has expired": {hook(func(h *doctor.Hook) { h.Chain.Value = trusted.serve(t, "hook", -3*time.Hour) }),
			finding{"cell a", "certificate", doctor.Problem, "expired 3h ago", "certificate-expired"}},
		"it expires soon": {hook(func(h *doctor.Hook) { h.Chain.Value = trusted.serve(t, "hook", 13*day+time.Hour) }),
			finding{"cell a", "certificate", doctor.Warning, "expires in 13d", "certificate-expiring"}},
		"it is for another name": {hook(func(h *doctor.Hook) { h.Host = "other" }),
			finding{"cell a", "certificate", doctor.Problem, "is not for other", "certificate-expired"}},
		"it is another authority's": {hook(func(h *doctor.Hook) { h.Bundle = other.bundle() }),
			finding{"cell a", "certificate", doctor.Problem, "does not vouch", "webhook-down"}},
		"the bundle has expired": {hook(func(h *doctor.Hook) { h.Bundle = spent.bundle() }),
			finding{"cell a", "certificate", doctor.Problem, "All authorities", "certificate-expired"}},
		"the bundle of a Service is empty": {hook(func(h *doctor.Hook) { h.Bundle, h.Local = nil, true }),
			finding{"cell a", "certificate", doctor.Problem, "holds no certificate", "certificate-expired"}},
		"the webhook refuses what costs nothing": {hook(func(h *doctor.Hook) { h.Answer = errors.New("refuses what costs nothing: no") }),
			finding{"cell a", "certificate", doctor.Problem, "refuses what costs nothing", "webhook-down"}},
		"a namespace is exempt": {cell(func(c *doctor.Cell) { c.Spaces.Value[0].Labels[v1alpha1.LabelExempt] = "true" }),
			finding{"cell a", "exempt", doctor.Warning, "Namespace shop has protectors", ""}},
		"namespaces may not be read, as Breakwater": {cell(func(c *doctor.Cell) { c.Lent, c.Spaces.Err = true, forbidden }),
			finding{"cell a", "exempt", doctor.Unknown, "forbidden", ""}},
	}.run(t, trusted)
}
