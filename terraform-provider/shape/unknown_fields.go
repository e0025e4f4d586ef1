package shape

import (
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
)

// UnknownFields returns the paths of the fields of an object that the kind does not have, as an API server with strict field validation
// reports them.
func (d *Definition) UnknownFields(object map[string]any) ([]string, error) {
	_, structural, err := d.structural()
	if err != nil {
		return nil, err
	}
	return pruning.PruneWithOptions(runtime.DeepCopyJSON(object), structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}), nil
}
