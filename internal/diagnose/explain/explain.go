// Package explain says why a removal is admitted or denied, and what would have to change. It reads the same state and calls the same
// functions as the webhook.
//
// It is pure: it does no I/O.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// Situation is the state that an answer depends on, at one time.
type Situation struct {
	Now     time.Time
	Cell    string
	Request removal.Request
	// Covering are the protectors of all cores that cover the pod, with the pod's domain for protectors that depend on it. CoveringErr is
	// why it is unknown which of them decide; the webhook then denies.
	Covering    []removal.Charge
	CoveringErr error
	// CoresErr says why the core clusters could not be read. Covering then has only the shares of the cell.
	CoresErr error
	// ShareOwners are the protectors that gave the cell a share.
	ShareOwners []*v1alpha1.PodProtector
	// Belongs reports whether the pod belongs to the cell in any core.
	Belongs bool
	// Cells are the Cells of the cores, by core name and cell name.
	Cells map[string]map[string]*v1alpha1.Cell
	// Hooks are the webhooks that the cell's API server may call. If HooksUnknown is true, they could not be read.
	Hooks        []webhookconfig.Hook
	HooksUnknown bool
}

// Asked says whether an API server calls Breakwater for a removal.
type Asked string

// Values of Asked.
const (
	AskedYes     Asked = "Yes"
	AskedNo      Asked = "No"
	AskedUnknown Asked = "Unknown"
)

// Asked reports whether the cell's API server calls Breakwater for the removal.
func (s Situation) Asked() Asked {
	switch {
	case s.HooksUnknown:
		return AskedUnknown
	case slices.ContainsFunc(s.Hooks, func(h webhookconfig.Hook) bool { return h.SkipReason == "" }):
		return AskedYes
	default:
		return AskedNo
	}
}

// NeedsCores reports whether the answer depends on the core clusters. It does not if the removal consumes no budget, is break-glass, or if the API
// server calls no webhook for it.
func (s Situation) NeedsCores() bool {
	return !s.Request.IsAlwaysAllowed() && !s.Request.IsBreakGlass() && s.Asked() != AskedNo
}

// Explanation is the explanation of one removal. Its form in -o json and -o yaml is stable.
type Explanation struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Cell is empty if it is unknown.
	Cell      string             `json:"cell"`
	Operation v1alpha1.Operation `json:"operation"`
	// Asked says whether the cell's API server calls the webhook for the removal.
	Asked Asked                `json:"asked"`
	Hooks []webhookconfig.Hook `json:"webhooks"`
	// Allowed, Verdict, Message and Code are the webhook's answer to a dry run now.
	Allowed bool                  `json:"allowed"`
	Verdict removal.VerdictReason `json:"verdict"`
	Message string                `json:"message,omitempty"`
	Code    int32                 `json:"code,omitempty"`
	// ForcedOver is the verdict that break-glass overrides for the pod.
	ForcedOver removal.VerdictReason `json:"forcedOver,omitempty"`
	// Passes says why the removal consumes no budget of any protector: the pod is terminating, has finished, or has no node.
	Passes string `json:"passes,omitempty"`
	// CoresUnread says why the core clusters could not be read. The protectors are then unknown.
	CoresUnread string      `json:"coresUnread,omitempty"`
	Protectors  []Protector `json:"protectors"`
	// Remedies are changes that would admit the removal. Each is sufficient alone unless its text says otherwise.
	Remedies []string `json:"remedies,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	// Answer is the answer of the API server to a dry run, if one was sent.
	Answer *Answer `json:"answer,omitempty"`
}

// Answer is the answer of an API server.
type Answer struct {
	Allowed bool   `json:"allowed"`
	Code    int32  `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// OfBudget reports whether a PodDisruptionBudget denied an eviction that Breakwater admitted.
	OfBudget bool `json:"ofDisruptionBudget,omitempty"`
	// Agrees reports whether the answer matches the explanation. It is false if the explanation IsUnknown.
	Agrees bool `json:"agrees"`
}

// Pod explains the result of a removal.
func Pod(s Situation) Explanation {
	answer := s.decide()
	e := Explanation{
		Namespace: s.Request.Namespace, Pod: s.Request.PodName, Cell: s.Cell, Operation: s.Request.Operation,
		Asked: s.Asked(), Hooks: s.Hooks,
		Allowed: answer.Allowed, Verdict: answer.Verdict, Passes: exemptReason(s.Request), Protectors: []Protector{},
	}
	if answer.Status != nil {
		e.Message, e.Code = answer.Status.Message, answer.Status.Code
	}
	if s.CoresErr != nil {
		e.CoresUnread = s.CoresErr.Error()
	}
	if e.IsUnknown() {
		// The message would claim that the webhook cannot read the cores, which only this program knows of itself.
		e.Message, e.Code = "", 0
		e.Notes = append(e.Notes, "the webhook denies the removal if it cannot read the core clusters either; break-glass (kubectl breakwater force) always works")
		return e
	}
	covering := slices.SortedFunc(slices.Values(s.Covering), func(a, b removal.Charge) int { return cmp.Compare(a.String(), b.String()) })
	for _, charge := range covering {
		e.Protectors = append(e.Protectors, s.explainProtector(charge, &e))
	}
	if s.Request.IsBreakGlass() && e.ForcedOver != "" {
		e.Notes = append(e.Notes, fmt.Sprintf("break-glass is set for this pod (annotation %s): the removal is admitted although the verdict is %s", v1alpha1.AnnotationForceDelete, e.ForcedOver))
	}
	e.Notes = append(e.Notes, s.notes()...)
	if !e.IsAdmitted() {
		e.Remedies = s.remedies(e.Protectors)
	}
	return e
}

// decide returns the answer of the webhook to a dry run.
func (s Situation) decide() removal.Answer {
	unknown := cmp.Or(s.CoveringErr, s.CoresErr)
	if unknown == nil || s.Request.IsAlwaysAllowed() {
		return removal.DecideDryRun(s.Covering, s.Belongs, s.Cell, s.Request, s.Now)
	}
	decision := removal.Deny(&removal.Denial{Cause: removal.CauseProtectorsUnknown, Detail: unknown.Error()})
	if s.Request.IsBreakGlass() {
		decision = decision.Force(s.Request.BreakGlassReason())
	}
	return decision.Answer(s.Cell, s.Request)
}

// IsUnknown reports whether the answer depends on core clusters that could not be read.
func (e Explanation) IsUnknown() bool { return e.CoresUnread != "" && !e.IsAdmitted() }

// IsAdmitted reports whether Breakwater does not prevent the removal.
func (e Explanation) IsAdmitted() bool { return e.Allowed || e.Asked == AskedNo }

// exemptReason says why a removal is admitted without consulting protectors. It is empty if they must be consulted.
func exemptReason(r removal.Request) string {
	switch {
	case r.Pod.DeletionTimestamp != nil:
		return "it is already terminating"
	case !r.IsAlwaysAllowed():
		return ""
	case r.Pod.Spec.NodeName == "":
		return "it is not scheduled to a node"
	default:
		return fmt.Sprintf("it has finished (%s)", r.Pod.Status.Phase)
	}
}

// notes are caveats: facts that the webhook or the API server can know and this explanation does not.
func (s Situation) notes() (all []string) {
	hasKubeconfig := false
	for _, cells := range s.Cells {
		cell := cells[s.Cell]
		hasKubeconfig = hasKubeconfig || cell != nil && cell.Spec.KubeconfigSecretRef != nil
	}
	hasShare := slices.ContainsFunc(s.Covering, func(c removal.Charge) bool { return c.Protector.Spec.ShareOf != nil })
	if !hasKubeconfig && !hasShare && s.CoresErr == nil { // the webhooks of a cell with shares run in its cluster
		all = append(all, fmt.Sprintf("no core has a Cell %q with a kubeconfigSecretRef: webhooks deny its removals unless they run with --cell %s=...", s.Cell, s.Cell))
	}
	if s.Request.Operation == v1alpha1.OperationEvict {
		all = append(all, "the API server checks PodDisruptionBudgets after Breakwater, and may deny the eviction as well")
	}
	return all
}
