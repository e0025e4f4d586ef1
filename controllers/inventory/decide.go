package inventory

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

const (
	managedBy     = "app.kubernetes.io/managed-by"
	kubeconfigKey = "kubeconfig"
)

// observed is what exists under the name of a Cell. Absent objects are nil.
type observed struct {
	name    string
	entries []entry
	cell    *v1alpha1.Cell
	// secret is the Secret that the inventory uses for the kubeconfig of such a Cell; secretName is its namespace and name.
	secret     *corev1.Secret
	secretName string
}

// decision is what to do about the name of a Cell. Nothing is ever deleted.
type decision struct {
	// create is the entry for which to create the Cell; nil if none.
	create *entry
	// kubeconfig is the new content of the Secret; nil if the Secret stays as it is.
	kubeconfig []byte
	// listed is the condition Listed of the Cell; nil if the Cell does not exist, is being deleted, or does not come from an inventory.
	listed *metav1.Condition
	// rejections are the entries without effect, and the reasons.
	rejections []rejection
}

type rejection struct {
	entry        entry
	reason, note string
}

func (d *decision) reject(entries []entry, reason, format string, arguments ...any) {
	for _, e := range entries {
		d.rejections = append(d.rejections, rejection{e, reason, fmt.Sprintf(format, arguments...)})
	}
}

// isCellName reports whether a Cell can have that name. The names of its webhook and ServiceAccount contain it.
func isCellName(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

func isOwned(object metav1.Object) bool { return object.GetLabels()[managedBy] == Name }

// decide determines what to do about the name of a Cell.
func decide(o observed) (d decision) {
	switch {
	case o.cell == nil:
		d.decideNew(o)
	case !isOwned(o.cell):
		d.reject(o.entries, v1alpha1.ReasonManagedElsewhere, "Cell %s exists, and does not come from an inventory: the entry does not change it. "+
			"Exclude the entry from the inventory, or give it another name with the annotation %s.", o.name, v1alpha1.AnnotationCellName)
	case o.cell.DeletionTimestamp == nil:
		d.decideExisting(o)
	}
	return d
}

// decideNew decides for a Cell that does not exist.
func (d *decision) decideNew(o observed) {
	problems := validation.IsDNS1123Label(o.name)
	switch {
	case len(o.entries) == 0:
	case len(problems) > 0:
		d.reject(o.entries, v1alpha1.ReasonEntryNameInvalid, "%q is not a valid name of a Cell: %s. Set a name with the annotation %s.",
			o.name, problems[0], v1alpha1.AnnotationCellName)
	case len(o.entries) > 1:
		d.reject(o.entries, v1alpha1.ReasonEntryConflict, "Several entries have the name %s, so no Cell is created: %s. Give all but one of them "+
			"another name with the annotation %s.", o.name, sources(o.entries), v1alpha1.AnnotationCellName)
	case o.entries[0].err != nil:
		d.reject(o.entries, v1alpha1.ReasonEntryUnusable, "No Cell is created for the entry. %s", clusters.Sentence(o.entries[0].err))
	case o.secret != nil && isOwned(o.secret):
		// A user deleted the Cell. Under the same name, a new one must not begin before all earlier admissions have ended.
		d.reject(o.entries, v1alpha1.ReasonCellDeleted, "Cell %s was deleted, and is not created again. To create it again, delete Secret %s; "+
			"otherwise exclude the entry from the inventory.", o.name, o.secretName)
	case o.secret != nil:
		d.reject(o.entries, v1alpha1.ReasonManagedElsewhere, "Secret %s exists, and does not come from an inventory: no Cell is created for the entry.", o.secretName)
	default:
		d.create = &o.entries[0]
	}
}

// decideExisting decides for a Cell that comes from an inventory. Only the entry that it was created from changes its kubeconfig.
func (d *decision) decideExisting(o observed) {
	source := o.cell.Annotations[v1alpha1.AnnotationInventoryEntry]
	set := func(status metav1.ConditionStatus, reason, format string, arguments ...any) {
		d.listed = &metav1.Condition{
			Type: v1alpha1.ConditionListed, Status: status, Reason: reason, Message: clusters.Truncate(fmt.Sprintf(format, arguments...), 2000),
			ObservedGeneration: o.cell.Generation,
		}
	}
	others := slices.DeleteFunc(slices.Clone(o.entries), func(e entry) bool { return e.source == source })
	d.reject(others, v1alpha1.ReasonEntryConflict, "Cell %s belongs to the entry %s: this entry does not change it. Give it another name with the annotation %s, "+
		"or set the annotation %s of the Cell.", o.name, source, v1alpha1.AnnotationCellName, v1alpha1.AnnotationInventoryEntry)
	at := slices.IndexFunc(o.entries, func(e entry) bool { return e.source == source })
	switch {
	case at < 0:
		set(metav1.ConditionFalse, v1alpha1.ReasonEntryMissing, "No inventory has the entry %s. The Cell and its kubeconfig are kept. "+
			"Delete the Cell if its cluster is to leave.", source)
		return
	case o.entries[at].err != nil:
		set(metav1.ConditionFalse, v1alpha1.ReasonEntryUnusable, "The entry %s cannot be used, and the kubeconfig is kept. %s",
			source, clusters.Sentence(o.entries[at].err))
		return
	case o.secret != nil && !isOwned(o.secret):
		set(metav1.ConditionFalse, v1alpha1.ReasonManagedElsewhere, "Secret %s does not come from an inventory: the entry %s does not change it.",
			o.secretName, source)
		return
	case len(others) > 0:
		set(metav1.ConditionFalse, v1alpha1.ReasonEntryConflict, "The kubeconfig is that of the entry %s. Other entries have the same name: %s.",
			source, sources(others))
	default:
		set(metav1.ConditionTrue, v1alpha1.ReasonEntryFound, "The entry %s provides the kubeconfig.", source)
	}
	if o.secret == nil || !bytes.Equal(o.secret.Data[kubeconfigKey], o.entries[at].kubeconfig) {
		d.kubeconfig = o.entries[at].kubeconfig
	}
}

func sources(entries []entry) string {
	names := make([]string, len(entries))
	for n := range entries {
		names[n] = entries[n].source
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
