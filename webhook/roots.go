package webhook

import (
	"context"
	"net/http"

	"k8s.io/client-go/metadata"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// EachProtector calls visit with the newest seen state of each PodProtector of a namespace, or of all namespaces if
// namespace is empty, together with the name of its core cluster. It includes PodProtectors that were deleted without
// having been released. visit must neither keep nor change the object. unread are the core clusters whose PodProtectors
// have not been read yet.
func (p *Protection) EachProtector(namespace string, visit func(core string, of *v1alpha1.PodProtector)) (unread []string) {
	for _, core := range p.cores {
		if !core.synced.Load() {
			unread = append(unread, core.name)
			continue
		}
		for _, one := range core.states.inNamespace(namespace) {
			visit(core.name, one)
		}
	}
	return unread
}

// CellMetadata returns a metadata client for the cluster of a cell.
func (p *Protection) CellMetadata(cell string) (metadata.Interface, error) {
	return p.cells.metadata(cell)
}

// reviewRoot answers a review of the deletion of an object that floors may depend on.
func (s *Server) reviewRoot(w http.ResponseWriter, r *http.Request) {
	review, release := s.readRequest(w, r)
	if review == nil {
		return
	}
	defer release()
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout(r))
	defer cancel()
	s.writeResponse(w, review, s.Roots.Review(ctx, r.PathValue("cluster"), review.Request))
}
