package webhook

import (
	"context"
	"net/http"

	"k8s.io/client-go/metadata"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// EachProtector calls visit with the newest seen state of each PodProtector of a namespace, or of all namespaces if it is
// empty, by the name of its core cluster. It includes those that were erased without having been released. visit must
// neither keep nor change the object. unread are the core clusters whose PodProtectors are not read yet.
func (p *Protection) EachProtector(namespace string, visit func(core string, of *v1alpha1.PodProtector)) (unread []string) {
	for _, core := range p.cores {
		if !core.read.Load() {
			unread = append(unread, core.name)
			continue
		}
		for _, one := range core.seen(namespace) {
			visit(core.name, one)
		}
	}
	return unread
}

// seen are the states that the watch has shown. The lock is held for a scan and no longer, so that removals do not wait.
func (c *core) seen(namespace string) (all []*v1alpha1.PodProtector) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for key, known := range c.known {
		if known.last != nil && (namespace == "" || key.Namespace == namespace) {
			all = append(all, known.last)
		}
	}
	return all
}

// CellMetadata reads the metadata of objects in the cluster of a cell.
func (p *Protection) CellMetadata(cell string) (metadata.Interface, error) {
	return p.cells.metadata(cell)
}

// reviewRoot answers about the deletion of an object that floors may depend on.
func (s *Server) reviewRoot(w http.ResponseWriter, r *http.Request) {
	review, release := s.receive(w, r)
	if review == nil {
		return
	}
	defer release()
	ctx, cancel := context.WithTimeout(r.Context(), reviewTime(r))
	defer cancel()
	s.respond(w, review, s.Roots.Review(ctx, r.PathValue("cluster"), review.Request))
}
