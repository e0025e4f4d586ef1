package deletion

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// Result is what happens to a floor.
type Result string

const (
	// Released means that the floor is released at once, or after the quiet period.
	Released Result = "Released"
	// Held means that the floor stays in force although the deletion succeeds.
	Held Result = "Held"
	// Refused means that the floor stays in force because the root guard denies the deletion.
	Refused Result = "Refused"
	// Kept means that the floor stays in force because the deletion does not request its release.
	Kept Result = "Kept"
)

// The reasons in addition to those of the conditions of a PodProtector.
const (
	// ReasonConfirmed means released because a user confirmed it.
	ReasonConfirmed = "Confirmed"
	// ReasonNoFloor means released because the floor is 0.
	ReasonNoFloor = "NoFloor"
	// ReasonSourceExists means held because the source of the protector still exists.
	ReasonSourceExists = "SourceExists"
	// ReasonRootGuard means denied by the root guard.
	ReasonRootGuard = "RootGuard"
	// ReasonProtected means kept because another policy, or the label of the workload, asks for protection.
	ReasonProtected = "Protected"
	// ReasonNotReleased means kept because the floor outlasts all deleted objects.
	ReasonNotReleased = "NotReleased"
)

// Prediction is the prediction for the floor of a protector. Its JSON format is stable.
type Prediction struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Floor is nil while the floor is unknown.
	Floor     *int   `json:"floor,omitempty"`
	Available int    `json:"available"`
	Result    Result `json:"result"`
	Reason    string `json:"reason"`
	// Because explains the reason in a few words.
	Because string `json:"because"`
	// Object is the deleted object: `Deployment "shop/web"`.
	Object string `json:"object"`
	// Message is the future text of the condition DecreasePending, or of the denial. It is empty if there will be none.
	Message string `json:"message,omitempty"`
}

// Forecast is the prediction for all affected floors. Its JSON format is stable.
type Forecast struct {
	// Objects is the number of objects to be deleted, including those whose deletion is denied.
	Objects    int          `json:"objects"`
	Mode       string       `json:"rootGuard"`
	Denied     int          `json:"denied"`
	Warned     int          `json:"warned"`
	Released   int          `json:"released"`
	Held       int          `json:"held"`
	Refused    int          `json:"refused"`
	Kept       int          `json:"kept"`
	Protectors []Prediction `json:"protectors"`
	Warnings   []string     `json:"warnings,omitempty"`
}

// HasNoDenials reports whether no floor is held and no deletion is denied.
func (f *Forecast) HasNoDenials() bool { return f.Held == 0 && f.Refused == 0 }

// Predict predicts what happens to the floors that depend on the targets if all targets are deleted at the same time. It returns one
// row for each such floor, sorted by name.
func Predict(w *State, targets []*rootguard.Object) Forecast {
	f := Forecast{Objects: len(targets), Mode: string(w.Guard.Mode), Protectors: []Prediction{}}
	answers := w.askRootGuard(targets)
	var allowed []*rootguard.Object
	for i, o := range targets {
		switch answers[i].Reason {
		case rootguard.Denied:
			f.Denied++
			continue
		case rootguard.Warned:
			f.Warned++
			f.Warnings = append(f.Warnings, answers[i].Text)
		}
		allowed = append(allowed, o)
	}
	refused := newPlan(w, targets)
	texts := map[*rootguard.Object]string{}
	for i := range targets {
		texts[targets[i]] = answers[i].Text
	}
	f.Protectors = w.predictions(newPlan(w, allowed), refused, texts)
	for i := range f.Protectors {
		switch f.Protectors[i].Result {
		case Released:
			f.Released++
		case Held:
			f.Held++
		case Refused:
			f.Refused++
		case Kept:
			f.Kept++
		}
	}
	return f
}

// predictions predicts the floors under the plan that the root guard allows. A floor that only the whole plan affects is refused.
func (w *State) predictions(allowed, whole *plan, denials map[*rootguard.Object]string) []Prediction {
	rows, pendingRows := []Prediction{}, []pendingRow{}
	for i := range w.Protectors {
		p := &w.Protectors[i]
		f := allowed.impactOn(p)
		if f.by == nil {
			if f = whole.impactOn(p); f.by == nil {
				continue
			}
			text := denials[f.by]
			f = impact{by: f.by, result: Refused, reason: ReasonRootGuard, explanation: "the root guard denies the deletion"}
			rows = append(rows, predictionOf(p, f))
			rows[len(rows)-1].Message = text
			continue
		}
		if f.request != nil {
			pendingRows = append(pendingRows, pendingRow{row: len(rows), Request: f.request})
		}
		rows = append(rows, predictionOf(p, f))
	}
	w.applyBrake(allowed, rows, pendingRows)
	slices.SortStableFunc(rows, func(a, b Prediction) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

func predictionOf(p *v1alpha1.PodProtector, f impact) Prediction {
	row := Prediction{
		Namespace: p.Namespace, Name: p.Name, Available: quota.BudgetOf(p).Available, Result: f.result, Reason: f.reason, Because: f.explanation,
		Object: f.by.String(),
	}
	if floor, known := quota.Floor(p); known {
		row.Floor = &floor
	}
	return row
}

// pendingRow is a row on which the brake decides.
type pendingRow struct {
	row int
	*brake.Request
	brake.Waiting
	cascade string
}

// applyBrake completes the rows on which the brake decides.
func (w *State) applyBrake(d *plan, rows []Prediction, pendingRows []pendingRow) {
	budgets := w.budgets()
	for i := range pendingRows {
		a := &pendingRows[i]
		row := &rows[a.row]
		effect, large := brake.DescribeRelease(a.Protector)
		a.Effect = effect
		switch {
		case !large:
			row.Result, row.Reason, row.Because = Released, ReasonNoFloor, "it has no floor"
		case a.IsConfirmed(w.namespaceAnnotations(a.Protector.Namespace), w.Now):
			row.Result, row.Reason, row.Because = Released, ReasonConfirmed, "at once: it is confirmed"
		default:
			name, limits := brake.BudgetOf(a.Protector, w.Limits)
			a.cascade = w.cascadeReason(d, a.Request, limits)
			a.Limits = limits
			a.Pending, _ = brake.NextPending(a.Protector, *a.Request, a.cascade, w.Now)
			budgets[name].waiting[a.Protector.UID] = a.Waiting
		}
	}
	for _, budget := range budgets {
		budget.predict(w)
	}
	for i := range pendingRows {
		if row := &rows[pendingRows[i].row]; row.Result == "" {
			name, _ := brake.BudgetOf(pendingRows[i].Protector, w.Limits)
			pendingRows[i].complete(row, budgets[name])
		}
	}
}

// complete completes the row with the answer of the brake.
func (a *pendingRow) complete(row *Prediction, of *budget) {
	answer := of.answers[a.Protector.UID]
	message := func(reason string) string { return brake.Message(*a.Request, reason, a.Limits, a.cascade) }
	switch {
	case a.Limits.HoldsCascade(a.Pending):
		row.Result, row.Reason, row.Because, row.Message = Held, v1alpha1.ReasonCascade, "cascade: "+a.cascade, message(v1alpha1.ReasonCascade)
		if before, _ := brake.DecreaseOf(a.Protector); a.cascade == "" {
			row.Because, row.Message = "cascade: it is already held", before.Summary()
		}
	case answer.Verdict == brake.Held:
		row.Result, row.Reason = Held, v1alpha1.ReasonLimitExceeded
		row.Because = fmt.Sprintf("limit exceeded: %s at once, and the limit of %d per %s has %d left",
			printable.Count(answer.Pending, "large decrease"), a.Limits.Allowed(of.protectors), a.Limits.Window, answer.Left)
		row.Message = message(v1alpha1.ReasonLimitExceeded)
	default:
		row.Result, row.Reason = Released, v1alpha1.ReasonQuietPeriod
		row.Because = fmt.Sprintf("after a quiet period of %s", a.Limits.Quiet)
		row.Message = message(v1alpha1.ReasonQuietPeriod)
	}
}

// budget is a budget of the brake.
type budget struct {
	name       string
	protectors int
	waiting    map[types.UID]brake.Waiting
	answers    map[types.UID]brake.Answer
}

// budgets returns the budgets of all protectors, with the decreases that are pending already.
func (w *State) budgets() map[string]*budget {
	all := map[string]*budget{}
	for i := range w.Protectors {
		p := &w.Protectors[i]
		name, limits := brake.BudgetOf(p, w.Limits)
		if all[name] == nil {
			all[name] = &budget{name: name, waiting: map[types.UID]brake.Waiting{}}
		}
		all[name].protectors++
		if pending, known := brake.PendingOf(p); known {
			all[name].waiting[p.UID] = brake.Waiting{Pending: pending, Limits: limits}
		}
	}
	return all
}

func (b *budget) predict(w *State) {
	var waiting []brake.Waiting
	for _, one := range b.waiting {
		waiting = append(waiting, one)
	}
	grants, _ := brake.ReadGrants(w.Grants, brake.Key(b.name)) // the brake grants nothing for an unreadable key; its caller reports it
	b.answers = brake.Predict(brake.State{Protectors: b.protectors, Grants: grants}, waiting, w.Now)
}

// cascadeReason returns the reason why the deletion behind a request is part of a cascade. It is empty if it is not, or if there is no need
// to check.
func (w *State) cascadeReason(d *plan, r *brake.Request, limits brake.Limits) string {
	if !r.NeedsCascadeCheck() || !r.MayCascade(limits) {
		return ""
	}
	if r.Cascade != "" {
		return r.Cascade
	}
	why, _ := brake.CascadeOf(*r, w.isNamespaceDeleted(d, r.Protector.Namespace), func(ref metav1.OwnerReference) (string, error) {
		return w.deletedOwner(d, ref), nil
	})
	return why
}

func (w *State) isNamespaceDeleted(d *plan, name string) bool {
	namespace := w.Namespaces[name]
	return d.namespaces[name] != nil || namespace != nil && namespace.DeletionTimestamp != nil
}

// deletedOwner returns a clause if an owner is deleted, or may be as far as the generator can determine.
func (w *State) deletedOwner(d *plan, ref metav1.OwnerReference) string {
	name := fmt.Sprintf("its owner %s %q", ref.Kind, ref.Name)
	switch kind := w.OwnerKinds[schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()]; {
	case kind == Unserved:
		return name + " is of a kind that the API server no longer serves"
	case w.isOwnerDeleted(ref), d.removedBy(ref, maxOwnerDepth) != nil:
		return name + " was deleted"
	case kind == Forbidden:
		return name + " may have been deleted, because the generator may not get it"
	}
	return ""
}

func (w *State) namespaceAnnotations(namespace string) map[string]string {
	if n := w.Namespaces[namespace]; n != nil {
		return n.Annotations
	}
	return nil
}
