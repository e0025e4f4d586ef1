package provider_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/terraform-provider/provider"
)

const podProtector = "breakwater_pod_protector"

// held is a protector in a state.
type held struct {
	name, namespace string
	state           *tfprotov6.DynamicValue
	identity        *tfprotov6.ResourceIdentityData
	private         []byte
}

// refresher is a client of the protocol that holds protectors of a namespace, and counts the requests of its provider.
type refresher struct {
	*protocolClient
	proxy  *recordingProxy
	config string
	held   []held
}

// newRefresher creates protectors named web-0, web-1, ... in a namespace.
func newRefresher(t *testing.T, namespace string, count int) *refresher {
	t.Helper()
	proxy := newRecordingProxy(t)
	config := proxyKubeconfig(t, proxy.Config)
	r := &refresher{protocolClient: newProtocolClientFor(t, config), proxy: proxy, config: config}
	for i := range count {
		r.held = append(r.held, held{name: fmt.Sprintf("web-%d", i), namespace: namespace})
		r.apply(i, "1")
	}
	r.reset()
	return r
}

func proxyKubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	path := t.TempDir() + "/kubeconfig"
	writeFile(t, path, testplane.KubeconfigOf(t, config))
	return path
}

// apply creates or updates a protector as Terraform does.
func (r *refresher) apply(i int, floor string) {
	r.t.Helper()
	h, schema := &r.held[i], r.schemas.ResourceSchemas[podProtector]
	of := schema.ValueType().(tftypes.Object)
	selector := of.AttributeTypes["selector"].(tftypes.Object)
	given := values{"namespace": stringArgument(h.namespace), "name": stringArgument(h.name), "min_available": stringArgument(floor),
		"deletion_protection": tftypes.NewValue(tftypes.Bool, false),
		"selector": tftypes.NewValue(selector, map[string]tftypes.Value{
			"match_labels":      tftypes.NewValue(selector.AttributeTypes["match_labels"], map[string]tftypes.Value{"app": stringArgument(h.name)}),
			"match_expressions": tftypes.NewValue(selector.AttributeTypes["match_expressions"], nil),
		})}
	config, prior := r.object(schema, given), h.state
	if prior == nil {
		none, err := tfprotov6.NewDynamicValue(of, tftypes.NewValue(of, nil))
		if err != nil {
			r.t.Fatal(err)
		}
		prior = &none
	} else {
		had := map[string]tftypes.Value{}
		if err := r.read(schema, prior).As(&had); err != nil {
			r.t.Fatal(err)
		}
		for _, name := range []string{"id", "uid"} {
			given[name] = had[name]
		}
	}
	planned, err := r.PlanResourceChange(r.t.Context(), &tfprotov6.PlanResourceChangeRequest{TypeName: podProtector, Config: config, PriorState: prior,
		ProposedNewState: r.object(schema, given), PriorPrivate: h.private, PriorIdentity: h.identity})
	if err != nil {
		r.t.Fatal(err)
	}
	r.wantNoDiagnostics(planned.Diagnostics)
	applied, err := r.ApplyResourceChange(r.t.Context(), &tfprotov6.ApplyResourceChangeRequest{TypeName: podProtector, Config: config, PriorState: prior,
		PlannedState: planned.PlannedState, PlannedPrivate: planned.PlannedPrivate, PlannedIdentity: planned.PlannedIdentity})
	if err != nil {
		r.t.Fatal(err)
	}
	r.wantNoDiagnostics(applied.Diagnostics)
	h.state, h.identity, h.private = applied.NewState, applied.NewIdentity, applied.Private
}

// configure configures the provider again, as Terraform does for each plan.
func (r *refresher) configure(kubeconfig string) {
	r.t.Helper()
	configured, err := r.ConfigureProvider(r.t.Context(), &tfprotov6.ConfigureProviderRequest{
		TerraformVersion: "1.14.0", Config: r.object(r.schemas.Provider, values{"config_path": stringArgument(kubeconfig)})})
	if err != nil {
		r.t.Fatal(err)
	}
	r.wantNoDiagnostics(configured.Diagnostics)
}

// refresh reads all protectors, and returns their floors; "none" if a protector does not exist.
func (r *refresher) refresh() []string {
	r.t.Helper()
	floors := make([]string, len(r.held))
	for i := range r.held {
		h := &r.held[i]
		read, err := r.ReadResource(r.t.Context(), &tfprotov6.ReadResourceRequest{
			TypeName: podProtector, CurrentState: h.state, CurrentIdentity: h.identity, Private: h.private})
		if err != nil {
			r.t.Fatal(err)
		}
		r.wantNoDiagnostics(read.Diagnostics)
		state := r.stateOf(read.NewState)
		floors[i] = "none"
		if !state.IsNull() {
			all := map[string]tftypes.Value{}
			if err := state.As(&all); err != nil {
				r.t.Fatal(err)
			}
			if err := all["min_available"].As(&floors[i]); err != nil {
				r.t.Fatal(err)
			}
			h.state = read.NewState
		}
	}
	return floors
}

// stateOf decodes the state of a protector.
func (r *refresher) stateOf(state *tfprotov6.DynamicValue) tftypes.Value {
	r.t.Helper()
	return r.read(r.schemas.ResourceSchemas[podProtector], state)
}

// reset returns how many objects were read alone, and the queries of the lists, since the last call.
func (r *refresher) reset() (gets int, lists []string) {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	for _, u := range r.proxy.requests {
		switch {
		case strings.HasSuffix(u.Path, "/podprotectors"):
			lists = append(lists, u.RawQuery)
		case strings.Contains(u.Path, "/podprotectors/"):
			gets++
		}
	}
	r.proxy.requests = nil
	return gets, lists
}

// floorsOf returns count floors: 1, with exceptions by index.
func floorsOf(count int, except map[int]string) []string {
	all := make([]string, count)
	for i := range all {
		if all[i] = "1"; except[i] != "" {
			all[i] = except[i]
		}
	}
	return all
}

func TestRefreshListsOnceAndIsNeverStale(t *testing.T) {
	namespace := testplane.Namespace(t)
	r := newRefresher(t, namespace, 30)
	wants := func(when string, except map[int]string) {
		t.Helper()
		if diff := cmp.Diff(floorsOf(30, except), r.refresh()); diff != "" {
			t.Errorf("floors %s (-want +got):\n%s", when, diff)
		}
	}
	wants("after they were created", nil)
	if gets, lists := r.reset(); gets != 10 || len(lists) != 1 {
		t.Errorf("a refresh of 30 resources sent %d GET requests and the lists %v, want 10 and one", gets, lists)
	}

	edit(t, namespace, "web-3", func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = v1alpha1.Pods(2) })
	edit(t, namespace, "web-29", func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = v1alpha1.Pods(2) })
	r.configure(r.config)
	wants("in the next plan of the process, after another client changed two", map[int]string{3: "2", 29: "2"})

	r.apply(28, "3")
	wants("after this process changed one", map[int]string{3: "2", 28: "3", 29: "2"})

	gone := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-27"}}
	if err := testplane.Client(t).Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	r.configure(r.config)
	wants("after another client deleted one", map[int]string{3: "2", 27: "none", 28: "3", 29: "2"})
}

// A drift of a field that the configuration leaves to its default is a change of the plan, although Terraform proposes the state.
func TestPlanResetsDefaultsOfListedObjects(t *testing.T) {
	namespace := testplane.Namespace(t)
	r := newRefresher(t, namespace, 12)
	edit(t, namespace, "web-11", func(p *v1alpha1.PodProtector) { p.Spec.CoreOutage = v1alpha1.CoreOutageLocalShare })
	r.configure(r.config)
	r.refresh()
	for i, want := range map[int]string{10: "Deny", 11: "LocalShare"} {
		all := map[string]tftypes.Value{}
		if err := r.stateOf(r.held[i].state).As(&all); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := all["core_outage"].As(&got); err != nil || got != want {
			t.Errorf("state of web-%d has core_outage %q (%v), want %q", i, got, err, want)
		}
		given := values{}
		for name, v := range all {
			given[name] = v
		}
		for _, name := range []string{"core_outage", "id", "uid"} {
			given[name] = tftypes.NewValue(tftypes.String, nil)
		}
		schema := r.schemas.ResourceSchemas[podProtector]
		planned, err := r.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{TypeName: podProtector, Config: r.object(schema, given),
			PriorState: r.held[i].state, ProposedNewState: r.held[i].state, PriorPrivate: r.held[i].private, PriorIdentity: r.held[i].identity})
		if err != nil {
			t.Fatal(err)
		}
		// The plan of web-11 warns that another field manager owns the field.
		if err := r.stateOf(planned.PlannedState).As(&all); err != nil {
			t.Fatal(err)
		}
		if err := all["core_outage"].As(&got); err != nil || got != "Deny" {
			t.Errorf("plan of web-%d has core_outage %q (%v), want Deny", i, got, err)
		}
	}
}

func TestRefreshWithoutPermissionToList(t *testing.T) {
	namespace := testplane.Namespace(t)
	r := newRefresher(t, namespace, 15)
	role := clusterRole(t, namespace+"-get",
		rbacv1.PolicyRule{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors"}, Verbs: []string{"get"}})
	reader := testplane.AsServiceAccount(t, testplane.Config(t), namespace, "reader", role)
	r.configure(proxyKubeconfig(t, reader))
	if diff := cmp.Diff(floorsOf(15, nil), r.refresh()); diff != "" {
		t.Errorf("floors (-want +got):\n%s", diff)
	}
}

func TestRefreshIsBounded(t *testing.T) {
	namespace := testplane.Namespace(t)
	r := newRefresher(t, namespace, 40)
	for claim, answer := range map[string]string{
		"a list without the objects":            `{"kind":"PodProtectorList","apiVersion":"breakwater.dev/v1alpha1","metadata":{},"items":[]}`,
		"a list of another 1,000,000 objects":   `{"kind":"PodProtectorList","metadata":{"continue":"more","remainingItemCount":1000000},"items":[]}`,
		"a list that does not tell how many":    `{"kind":"PodProtectorList","metadata":{"continue":"more"},"items":[]}`,
		"a list of 40 MiB":                      `{"kind":"PodProtectorList","metadata":{},"items":[]}` + strings.Repeat(" ", 40<<20),
		"an answer that is no list":             `<html>Sign in</html>`,
		"a list that breaks off in the middle ": `{"kind":"PodProtectorList","metadata":{},"items":[{"metadata":`,
	} {
		t.Run(claim, func(t *testing.T) {
			r.proxy.respond = func(w http.ResponseWriter, req *http.Request) bool {
				isList := req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/podprotectors")
				if isList {
					w.Header().Set("Content-Type", "application/json")
					_, _ = bytes.NewBufferString(answer).WriteTo(w)
				}
				return isList
			}
			r.configure(r.config)
			r.reset()
			if diff := cmp.Diff(floorsOf(40, nil), r.refresh()); diff != "" {
				t.Errorf("floors (-want +got):\n%s", diff)
			}
			if gets, lists := r.reset(); gets != 40 || len(lists) != 1 || !strings.HasPrefix(lists[0], "limit=220&") {
				t.Errorf("a refresh of 40 resources sent %d GET requests and %d lists, want 40 and one with limit=220", gets, len(lists))
			}
		})
	}
}

// The framework answers a plan without changes in the same way.
func TestUnchangedPlansAreThoseOfTheFramework(t *testing.T) {
	namespace := testplane.Namespace(t)
	s, c := newProtocolClientFor(t, testplane.Kubeconfig(t)), testplane.Client(t)
	for kind, object := range oneOfEach(namespace) {
		t.Run(kind, func(t *testing.T) {
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Delete(context.Background(), object) })
			state, identity := s.imported(kind, strings.TrimPrefix(client.ObjectKeyFromObject(object).String(), "/"))
			schema, given := s.schemas.ResourceSchemas[kind], values{}
			if err := state.As((*map[string]tftypes.Value)(&given)); err != nil {
				t.Fatal(err)
			}
			prior := s.object(schema, given)
			for _, name := range []string{"id", "uid"} {
				given[name] = tftypes.NewValue(tftypes.String, nil)
			}
			req := &tfprotov6.PlanResourceChangeRequest{TypeName: kind, Config: s.object(schema, given), PriorState: prior, ProposedNewState: prior,
				PriorPrivate: []byte(`{"field-manager":"ImJyZWFrd2F0ZXItdGVycmFmb3JtIg=="}`), PriorIdentity: identity}
			got, err := s.PlanResourceChange(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			want, err := provider.FrameworkOf(s.ProviderServer).PlanResourceChange(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.read(schema, want.PlannedState), s.read(schema, got.PlannedState)); diff != "" {
				t.Errorf("planned state (-framework +got):\n%s", diff)
			}
			want.PlannedState, got.PlannedState = nil, nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("plan (-framework +got):\n%s", diff)
			}
		})
	}
}
