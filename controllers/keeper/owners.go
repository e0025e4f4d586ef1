package keeper

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// ownersOf returns which field managers own the fields of a protector besides its status. A protector that has not got its owners back carries them in
// its metadata, also if it has its status already.
func ownersOf(p *v1alpha1.PodProtector) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(restoredOwners(p)), func(entry metav1.ManagedFieldsEntry) bool { return entry.Subresource != "" })
}

// carriedOwners returns the record of the owners in the metadata of a recreated protector. A record that cannot be parsed counts as none.
func carriedOwners(p *v1alpha1.PodProtector) (owners []metav1.ManagedFieldsEntry) {
	if err := json.Unmarshal([]byte(p.Annotations[v1alpha1.AnnotationRestoredOwners]), &owners); err != nil {
		return nil
	}
	return owners
}

// restoredOwners returns the managed fields of a recreated protector after the owners in its record have replaced the keeper. The API server made the
// keeper the only owner when it created the protector, so that a field that the generator, Terraform or a user no longer applies would stay forever.
// Those who have written it since stay owners of what they wrote: the fields of an owner are those of both entries. What it applied before and no longer
// wants goes with its next apply.
func restoredOwners(p *v1alpha1.PodProtector) []metav1.ManagedFieldsEntry {
	owners := carriedOwners(p)
	if len(owners) == 0 {
		return p.ManagedFields
	}
	for _, entry := range p.ManagedFields {
		if entry.Subresource == "" && entry.Manager == Name {
			continue
		}
		recorded := slices.IndexFunc(owners, func(owner metav1.ManagedFieldsEntry) bool {
			return owner.Manager == entry.Manager && owner.Operation == entry.Operation && owner.APIVersion == entry.APIVersion && entry.Subresource == ""
		})
		if recorded < 0 {
			owners = append(owners, entry)
			continue
		}
		owners[recorded] = withFieldsOf(entry, owners[recorded])
	}
	return owners
}

// withFieldsOf returns an entry with its own fields and those of a recorded one. Recorded fields that cannot be parsed count as none.
func withFieldsOf(entry, recorded metav1.ManagedFieldsEntry) metav1.ManagedFieldsEntry {
	if entry.FieldsV1 == nil || recorded.FieldsV1 == nil {
		return entry
	}
	var own, former fieldpath.Set
	if own.FromJSON(entry.FieldsV1.GetRawReader()) != nil || former.FromJSON(recorded.FieldsV1.GetRawReader()) != nil {
		return entry
	}
	fields, err := own.Union(&former).ToJSON()
	if err != nil {
		return entry
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(fields))
	return entry
}
