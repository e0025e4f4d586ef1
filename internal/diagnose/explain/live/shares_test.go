package live

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestRead(t *testing.T) {
	named := func(name string, shareOf *v1alpha1.ShareOf) *v1alpha1.PodProtector {
		p := &v1alpha1.PodProtector{}
		p.Namespace, p.Name, p.UID, p.Spec.ShareOf = "shop", name, types.UID(name), shareOf
		return p
	}
	cell := &v1alpha1.Cell{}
	cell.Name = "one"
	share := named("web.share-1", &v1alpha1.ShareOf{Name: "web", Cell: "one"})
	worker := []client.Object{cell, share, named("web.share-2", &v1alpha1.ShareOf{Name: "web", Cell: "two"}), named("own", nil)}
	cluster := func(err error, objects ...client.Object) *Cluster {
		b := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(objects...)
		if err != nil {
			b = b.WithInterceptorFuncs(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return err }})
		}
		return &Cluster{Cell: "one", shares: b.Build()}
	}
	core := func(objects ...client.Object) []Core {
		return []Core{{Name: "core", Reader: fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(objects...).Build()}}
	}
	failing := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return &url.Error{Op: "Get", URL: "https://core", Err: context.DeadlineExceeded}
	}}
	unanswered := []Core{{Name: "core", Reader: fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithInterceptorFuncs(failing).Build()}}
	if _, _, err := Read(t.Context(), unanswered, cluster(nil, cell), "shop"); err == nil {
		t.Error("Read() returned no error for a core that does not answer, and no shares")
	}
	for claim, c := range map[string]struct {
		cores   []Core
		cluster *Cluster
		want    string
		note    string
	}{
		"the shares of the cell":                  {core(named("web", nil)), cluster(nil, worker...), "core: web; shares: web.share-1", ""},
		"none if the core is the cell's cluster":  {core(worker...), cluster(nil, worker...), "core: own, web.share-1, web.share-2", ""},
		"a cluster without PodProtectors":         {core(named("web", nil)), cluster(&meta.NoKindMatchError{}), "core: web", ""},
		"without a core that does not answer":     {unanswered, cluster(nil, worker...), "shares: web.share-1", `core cluster "core" does not answer`},
		"shares that cannot be read, with a note": {core(named("web", nil)), cluster(errors.New("forbidden")), "core: web", "cannot read the shares of the cell in its cluster: forbidden"},
	} {
		t.Run(claim, func(t *testing.T) {
			read, notes, err := Read(t.Context(), c.cores, c.cluster, "shop")
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, core := range read {
				var names []string
				for _, p := range core.Protectors {
					names = append(names, p.Name)
				}
				all = append(all, core.Name+": "+strings.Join(names, ", "))
				if core.Name == shareCore && core.Cells["one"] == nil {
					t.Error("the Cell in the cell's cluster was not read")
				}
			}
			if got, note := strings.Join(all, "; "), strings.Join(notes, "; "); got != c.want || !strings.HasPrefix(note, c.note) || c.note == "" && note != "" {
				t.Errorf("Read() = %s with notes %q, want %s with %q", got, note, c.want, c.note)
			}
		})
	}
}
