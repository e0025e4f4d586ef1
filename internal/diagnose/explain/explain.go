// Package explain tells why a removal is refused, or is not, and what would have to change: from the state that the webhook decides on, by
// the functions that it decides with.
//
// It is pure: values in, values out.
package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// Situation is what an answer depends on, as it was read at a time.
type Situation struct {
	Now     time.Time
	Cell    string
	Request removal.Request
	// Covering are the protectors of all cores that cover the pod, with the domain of the pod for those that mind it.
	Covering []removal.Charge
	// Belongs tells whether the pod belongs to the cell in any core.
	Belongs bool
	// Cells are those of the cores, by the names of both.
	Cells map[string]map[string]*v1alpha1.Cell
	// Hooks are those that the cell's apiserver may ask, unless Unread tells that nobody could read which.
	Hooks  []webhookconfig.Hook
	Unread bool
}

// Asked tells whether an apiserver asks Breakwater about a removal.
type Asked string

// It does, it does not, or that could not be read.
const (
	AskedYes     Asked = "Yes"
	AskedNo      Asked = "No"
	AskedUnknown Asked = "Unknown"
)

func (s Situation) asked() Asked {
	switch {
	case s.Unread:
		return AskedUnknown
	case slices.ContainsFunc(s.Hooks, func(h webhookconfig.Hook) bool { return h.Leaves == "" }):
		return AskedYes
	default:
		return AskedNo
	}
}

// Explanation is what is told. It is the stable shape of -o json and yaml.
type Explanation struct {
	Namespace string             `json:"namespace"`
	Pod       string             `json:"pod"`
	Cell      string             `json:"cell"`
	Operation v1alpha1.Operation `json:"operation"`
	// Asked tells whether the cell's apiserver asks the webhook about it at all.
	Asked Asked                `json:"asked"`
	Hooks []webhookconfig.Hook `json:"webhooks"`
	// Allowed, Verdict, Message and Code are the webhook's answer to a dry run now.
	Allowed bool                  `json:"allowed"`
	Verdict removal.VerdictReason `json:"verdict"`
	Message string                `json:"message,omitempty"`
	Code    int32                 `json:"code,omitempty"`
	// ForcedOver is what would have been refused if the glass were not broken for the pod.
	ForcedOver removal.VerdictReason `json:"forcedOver,omitempty"`
	// Passes is why a removal costs nothing, whoever protects the pod: it is going, has finished, or has no node.
	Passes     string      `json:"passes,omitempty"`
	Protectors []Protector `json:"protectors"`
	// Remedies are what would let the pod go, each by itself unless it says otherwise.
	Remedies []string `json:"remedies,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	// Answer is what the apiserver has said to a dry run, if it was asked.
	Answer *Answer `json:"answer,omitempty"`
}

// Answer is that of an apiserver.
type Answer struct {
	Allowed bool   `json:"allowed"`
	Code    int32  `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// OfBudget tells that a PodDisruptionBudget has refused an eviction that Breakwater let through.
	OfBudget bool `json:"ofDisruptionBudget,omitempty"`
	// Agrees tells whether that is what was told.
	Agrees bool `json:"agrees"`
}

// Pod explains what would become of a removal.
func Pod(s Situation) Explanation {
	answer := removal.Judge(s.Covering, s.Belongs, s.Cell, s.Request, s.Now)
	e := Explanation{
		Namespace: s.Request.Namespace, Pod: s.Request.PodName, Cell: s.Cell, Operation: s.Request.Operation,
		Asked: s.asked(), Hooks: s.Hooks,
		Allowed: answer.Allowed, Verdict: answer.Verdict, Passes: passes(s.Request), Protectors: []Protector{},
	}
	if answer.Status != nil {
		e.Message, e.Code = answer.Status.Message, answer.Status.Code
	}
	for _, charge := range inOrder(s.Covering) {
		e.Protectors = append(e.Protectors, s.protector(charge, &e))
	}
	if s.Request.Forced() && e.ForcedOver != "" {
		e.Notes = append(e.Notes, fmt.Sprintf("the glass is broken for this pod (annotation %s): it goes although %s", v1alpha1.AnnotationForceDelete, e.ForcedOver))
	}
	e.Notes = append(e.Notes, s.notes()...)
	if !e.Goes() {
		e.Remedies = s.remedies(e.Protectors)
	}
	return e
}

// Goes tells whether nothing of Breakwater keeps the pod.
func (e Explanation) Goes() bool { return e.Allowed || e.Asked == AskedNo }

func inOrder(covering []removal.Charge) []removal.Charge {
	all := slices.Clone(covering)
	slices.SortFunc(all, func(a, b removal.Charge) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	return all
}

// passes is why a removal needs no look at protectors; empty when it does.
func passes(r removal.Request) string {
	switch {
	case r.Pod.DeletionTimestamp != nil:
		return "it is terminating already"
	case !r.Passes():
		return ""
	case r.Pod.Spec.NodeName == "":
		return "it is not scheduled to a node"
	default:
		return fmt.Sprintf("it has finished (%s)", r.Pod.Status.Phase)
	}
}

// notes are what the webhook may know better.
func (s Situation) notes() (all []string) {
	named := false
	for _, cells := range s.Cells {
		cell := cells[s.Cell]
		named = named || cell != nil && cell.Spec.KubeconfigSecretRef != nil
	}
	if !named {
		all = append(all, fmt.Sprintf("no core has a Cell %q with a kubeconfigSecretRef: webhooks know it if they run with --cell %s=..., and refuse all otherwise", s.Cell, s.Cell))
	}
	if s.Request.Operation == v1alpha1.OperationEvict {
		all = append(all, "PodDisruptionBudgets are asked after Breakwater, and may refuse the eviction as well")
	}
	return all
}
