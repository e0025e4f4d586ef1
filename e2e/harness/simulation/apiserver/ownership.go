package apiserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Ownership of the fields of protectors by server-side apply, as far as the generator and the keeper rely on it. Each item of operations, each field of
// admissionHistory and each annotation is a field of its own. All other fields of the spec are one field each, which an apply replaces as a whole. A
// field that a manager applied earlier and no longer applies is removed, unless another manager owns it too.
// Then the fields that are not set get the defaults of the CustomResourceDefinition, of those fields whose decrease the release brake holds.
//
// The owners are recorded in metadata.managedFields, so that a restored core has those of its backup, and the keeper can restore those of a recreated
// protector. Only clients that create and apply protectors own fields: no other client changes the spec of a generated protector.

const (
	annotationPrefix = "annotations/"
	operationPrefix  = "operations/"
	historyPrefix    = "admissionHistory/"
	// creator owns the fields of a protector whose creation named no field manager.
	creator = "creator"
)

// fieldSet is the annotations and the fields of the spec of a protector, by path.
type fieldSet map[string]any

// appliedFields returns the fields of an object in JSON.
func appliedFields(raw []byte) (fieldSet, error) {
	var object struct {
		Metadata struct {
			Annotations map[string]any `json:"annotations"`
		} `json:"metadata"`
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	all := fieldSet{}
	for key, value := range object.Metadata.Annotations {
		all[annotationPrefix+key] = value
	}
	for name, value := range object.Spec {
		switch value := value.(type) {
		case []any: // only operations
			for _, item := range value {
				all[fmt.Sprint(operationPrefix, item)] = item
			}
		case map[string]any:
			if name+"/" != historyPrefix {
				all[name] = value
				continue
			}
			for part, number := range value {
				all[historyPrefix+part] = number
			}
		default:
			all[name] = value
		}
	}
	return all, nil
}

// fieldsOf returns the fields of a stored protector.
func fieldsOf(p *v1alpha1.PodProtector) (fieldSet, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return appliedFields(raw)
}

// applyTo applies the fields to a protector as a field manager.
func (f fieldSet) applyTo(stored *v1alpha1.PodProtector, manager string) error {
	owners := ownersOf(stored)
	if len(f) == 0 && len(owners[manager]) == 0 {
		return nil // a finalizer alone
	}
	all, err := fieldsOf(stored)
	if err != nil {
		return err
	}
	for path := range owners[manager] {
		if _, isApplied := f[path]; !isApplied && !owners.hasOther(path, manager) {
			delete(all, path)
		}
	}
	maps.Copy(all, f)
	owners.set(manager, f)
	stored.ManagedFields = owners.entries()
	spec := stored.Spec
	if err := all.replaceIn(stored); err != nil {
		return err
	}
	if stored.Generation > 0 && !same(&spec, &stored.Spec) {
		stored.Generation++
	}
	return nil
}

// replaceIn gives a protector these fields and no others, besides the defaults.
func (f fieldSet) replaceIn(p *v1alpha1.PodProtector) error {
	annotations, spec, operations, history := map[string]any{}, map[string]any{}, []any{}, map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(f)) {
		if key, ok := strings.CutPrefix(path, annotationPrefix); ok {
			annotations[key] = f[path]
		} else if _, ok := strings.CutPrefix(path, operationPrefix); ok {
			operations = append(operations, f[path])
		} else if part, ok := strings.CutPrefix(path, historyPrefix); ok {
			history[part] = f[path]
		} else {
			spec[path] = f[path]
		}
	}
	spec["operations"], spec["admissionHistory"] = operations, history
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": spec})
	if err != nil {
		return err
	}
	replaced := &v1alpha1.PodProtector{}
	if err := json.Unmarshal(raw, replaced); err != nil {
		return err
	}
	setDefaults(&replaced.Spec)
	p.Annotations, p.Spec = replaced.Annotations, replaced.Spec
	return nil
}

// defaultUpdateTimeout is shorter than that of the CustomResourceDefinition: for as long, aggregators count the pods of a changed protector by its earlier
// spec as well.
const defaultUpdateTimeout int32 = 30

func setDefaults(spec *v1alpha1.PodProtectorSpec) {
	if len(spec.Operations) == 0 {
		spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict, v1alpha1.OperationRelabel}
	}
	if spec.Criterion == "" {
		spec.Criterion = v1alpha1.CriterionAvailable
	}
	if spec.CoreOutage == "" {
		spec.CoreOutage = v1alpha1.CoreOutageDeny
	}
	if spec.TargetRemovalPolicy == "" {
		spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRetain
	}
	if spec.AdmissionHistory.UpdateTimeoutSeconds == nil {
		seconds := defaultUpdateTimeout
		spec.AdmissionHistory.UpdateTimeoutSeconds = &seconds
	}
}

// owners are the paths of the fields that each field manager owns.
type owners map[string]map[string]struct{}

func ownersOf(p *v1alpha1.PodProtector) owners {
	all := owners{}
	for _, entry := range p.ManagedFields {
		paths := map[string]struct{}{}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &paths); err != nil {
			panic(fmt.Sprintf("apiserver: the owned fields of %s are no JSON: %v", p.Name, err))
		}
		all[entry.Manager] = paths
	}
	return all
}

func (o owners) set(manager string, all fieldSet) {
	o[manager] = map[string]struct{}{}
	for path := range all {
		o[manager][path] = struct{}{}
	}
}

// hasOther reports whether another manager owns a field.
func (o owners) hasOther(path, manager string) bool {
	for other, paths := range o {
		if _, owned := paths[path]; owned && other != manager {
			return true
		}
	}
	return false
}

// entries returns the record of the owners.
func (o owners) entries() (entries []metav1.ManagedFieldsEntry) {
	for _, manager := range slices.Sorted(maps.Keys(o)) {
		raw, err := json.Marshal(o[manager])
		if err != nil {
			panic(fmt.Sprintf("apiserver: owned fields have no JSON: %v", err))
		}
		entries = append(entries, metav1.ManagedFieldsEntry{Manager: manager, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw))})
	}
	return entries
}

// recordCreator makes the client that creates a protector the owner of its fields.
func recordCreator(p *v1alpha1.PodProtector, manager string) error {
	all, err := fieldsOf(p)
	if err != nil {
		return err
	}
	created := owners{}
	created.set(cmp.Or(manager, creator), all)
	p.ManagedFields = created.entries()
	return nil
}
