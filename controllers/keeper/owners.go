package keeper

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
// Those who have written it since stay owners.
func restoredOwners(p *v1alpha1.PodProtector) []metav1.ManagedFieldsEntry {
	owners := carriedOwners(p)
	if len(owners) == 0 {
		return p.ManagedFields
	}
	for _, entry := range p.ManagedFields {
		isReplaced := entry.Subresource == "" && (entry.Manager == Name || slices.ContainsFunc(owners, func(owner metav1.ManagedFieldsEntry) bool {
			return owner.Manager == entry.Manager && owner.Operation == entry.Operation
		}))
		if !isReplaced {
			owners = append(owners, entry)
		}
	}
	return owners
}
