package provider_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// collection is a map, list or set that a configuration can set.
type collection struct {
	// at is the path to it, as in messages and as in the protocol. Lists on the way have one element.
	text string
	at   *tftypes.AttributePath
	// with returns a configuration in which only the way to the collection is set, and its value, or the whole way as far as it is an
	// object.
	with func(tftypes.Value) tftypes.Value
	of   tftypes.Type
}

// collections returns all collections below a type that a configuration can set.
func collections(c collection, canSet func(path string) bool) (all []collection) {
	switch of := c.of.(type) {
	case tftypes.Object:
		for name, t := range of.AttributeTypes {
			at := c.at.WithAttributeName(name)
			if canSet(withoutElements(at)) {
				all = append(all, collections(collection{
					text: strings.TrimPrefix(c.text+"."+name, "."), at: at, of: t, with: func(v tftypes.Value) tftypes.Value { return c.with(onlyAttribute(of, name, v)) },
				}, canSet)...)
			}
		}
	case tftypes.Map:
		inner := collection{text: c.text + `["x"]`, at: c.at.WithElementKeyString("x"), of: of.ElementType, with: func(v tftypes.Value) tftypes.Value {
			return c.with(tftypes.NewValue(of, map[string]tftypes.Value{"x": v}))
		}}
		all = append(append(all, inner), collections(inner, canSet)...)
	case tftypes.List:
		inner := collection{text: c.text + "[0]", at: c.at.WithElementKeyInt(0), of: of.ElementType, with: func(v tftypes.Value) tftypes.Value {
			return c.with(tftypes.NewValue(of, []tftypes.Value{v}))
		}}
		all = append(append(all, inner), collections(inner, canSet)...)
	case tftypes.Set:
		all = append(all, collection{text: "An element of " + c.text, at: c.at, of: of.ElementType, with: func(v tftypes.Value) tftypes.Value {
			return c.with(tftypes.NewValue(of, []tftypes.Value{v}))
		}})
	}
	return all
}

// onlyAttribute returns an object in which only one attribute is set.
func onlyAttribute(of tftypes.Object, name string, v tftypes.Value) tftypes.Value {
	all := map[string]tftypes.Value{}
	for other, t := range of.AttributeTypes {
		all[other] = tftypes.NewValue(t, nil)
	}
	all[name] = v
	return tftypes.NewValue(of, all)
}

func withoutElements(at *tftypes.AttributePath) string {
	return withoutPositions.ReplaceAllString(at.String(), "")
}

// settable returns the attributes and blocks of a schema that a configuration can set, at any depth.
func settable(schema *tfprotov6.Schema) map[string]bool {
	all := map[string]bool{}
	var addAttributes func(*tftypes.AttributePath, []*tfprotov6.SchemaAttribute)
	addAttributes = func(at *tftypes.AttributePath, attributes []*tfprotov6.SchemaAttribute) {
		for _, a := range attributes {
			at := at.WithAttributeName(a.Name)
			if all[at.String()] = a.Optional || a.Required; a.NestedType != nil {
				addAttributes(at, a.NestedType.Attributes)
			}
		}
	}
	var addBlock func(*tftypes.AttributePath, *tfprotov6.SchemaBlock)
	addBlock = func(at *tftypes.AttributePath, block *tfprotov6.SchemaBlock) {
		addAttributes(at, block.Attributes)
		for _, b := range block.BlockTypes {
			at := at.WithAttributeName(b.TypeName)
			all[at.String()] = true
			addBlock(at, b.Block)
		}
	}
	addBlock(tftypes.NewAttributePath(), schema.Block)
	return all
}

// nullIn checks that a configuration is rejected for each of its collections with a null element, and returns their number.
func (s *protocolClient) nullIn(name string, schema *tfprotov6.Schema, calls ...validation) int {
	s.t.Helper()
	can := settable(schema)
	root := collection{at: tftypes.NewAttributePath(), of: schema.ValueType(), with: func(v tftypes.Value) tftypes.Value { return v }}
	all := collections(root, func(path string) bool { return can[path] })
	if len(all) > 0 && len(calls) == 0 {
		s.t.Errorf("%s can set %s, and nothing rejects its null elements", name, all[0].text)
	}
	for _, c := range all {
		config, err := tfprotov6.NewDynamicValue(schema.ValueType(), c.with(tftypes.NewValue(c.of, nil)))
		if err != nil {
			s.t.Fatal(err)
		}
		for i, call := range calls {
			found, err := call(&config)
			if err != nil {
				s.t.Fatal(err)
			}
			if len(found) != 1 || found[0].Severity != tfprotov6.DiagnosticSeverityError || !found[0].Attribute.Equal(c.at) ||
				!strings.HasPrefix(found[0].Detail, c.text+" is null, ") {
				s.t.Errorf("%s, call %d: want one error that %s is null: %s", name, i, c.text, diagnosticText(found))
			}
		}
		// An unknown element may still get a value.
		later, err := tfprotov6.NewDynamicValue(schema.ValueType(), c.with(tftypes.NewValue(c.of, tftypes.UnknownValue)))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, call := range calls[:min(1, len(calls))] {
			if found, err := call(&later); err != nil || strings.Contains(diagnosticText(found), " is null") {
				s.t.Errorf("%s: an unknown %s is rejected: %v %s", name, c.text, err, diagnosticText(found))
			}
		}
	}
	return len(all)
}

// No map, list or set of any schema may have a null element: an object without the element could select other pods than the plan
// shows. An attribute that is null is as one that is left out, because Terraform sends the same for both.
func TestNullElementsAreRejected(t *testing.T) {
	s := newProtocolClientWithoutCluster(t)
	checked := 0
	for name, schema := range s.schemas.ResourceSchemas {
		nothing, err := tfprotov6.NewDynamicValue(schema.ValueType(), tftypes.NewValue(schema.ValueType(), nil))
		if err != nil {
			t.Fatal(err)
		}
		checked += s.nullIn(name, schema, func(config *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			r, err := s.ValidateResourceConfig(t.Context(), &tfprotov6.ValidateResourceConfigRequest{TypeName: name, Config: config})
			return r.Diagnostics, err
		}, func(planned *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			r, err := s.ApplyResourceChange(t.Context(), &tfprotov6.ApplyResourceChangeRequest{TypeName: name, PriorState: &nothing, PlannedState: planned, Config: planned})
			if r != nil && r.NewState != &nothing {
				t.Errorf("%s: the state after a rejected apply is not the one before", name)
			}
			return r.Diagnostics, err
		})
	}
	checked += s.nullIn("provider", s.schemas.Provider, func(config *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
		r, err := s.ValidateProviderConfig(t.Context(), &tfprotov6.ValidateProviderConfigRequest{Config: config})
		return r.Diagnostics, err
	})
	for name, schema := range s.schemas.DataSourceSchemas {
		s.nullIn(name, schema)
	}
	for name, schema := range s.schemas.ListResourceSchemas {
		s.nullIn(name, schema)
	}
	for name, schema := range s.schemas.ActionSchemas {
		s.nullIn(name, schema.Schema)
	}
	if checked < 200 {
		t.Errorf("checked %d collections, want at least 200", checked)
	}
}

// Whatever a client validated, an apply sends nothing for an object with a null element.
func TestNullElementIsNotSent(t *testing.T) {
	var requests atomic.Int32
	core := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		http.Error(w, "no", http.StatusTeapot)
	}))
	t.Cleanup(core.Close)
	s := newProtocolClient(t, values{"host": stringArgument(core.URL), "token": stringArgument("t")})
	schema := s.schemas.ResourceSchemas["breakwater_pod_protector"]
	selector := schema.ValueType().(tftypes.Object).AttributeTypes["selector"].(tftypes.Object)
	labels := selector.AttributeTypes["match_labels"]
	for claim, c := range map[string]struct {
		app  any
		want string
	}{
		"null is rejected": {nil, `selector.match_labels["app"] is null`},
		"a text is sent":   {"web", "could not be"},
	} {
		requests.Store(0)
		planned := s.object(schema, values{
			"namespace": stringArgument("shop"), "name": stringArgument("web"), "min_available": stringArgument("2"), "deletion_protection": trueArgument(),
			"selector": onlyAttribute(selector, "match_labels", tftypes.NewValue(labels, map[string]tftypes.Value{"app": tftypes.NewValue(tftypes.String, c.app)})),
		})
		nothing, err := tfprotov6.NewDynamicValue(schema.ValueType(), tftypes.NewValue(schema.ValueType(), nil))
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.ApplyResourceChange(t.Context(), &tfprotov6.ApplyResourceChangeRequest{
			TypeName: "breakwater_pod_protector", PriorState: &nothing, PlannedState: planned, Config: planned,
		})
		if err != nil || !strings.Contains(diagnosticText(r.Diagnostics), c.want) || (requests.Load() == 0) != (c.app == nil) {
			t.Errorf("%s: %d requests, %v %s", claim, requests.Load(), err, diagnosticText(r.Diagnostics))
		}
	}
}

// The real program rejects the null of a variable in the plan, and that of another resource's output in the apply, before it writes
// anything.
func TestNullElementsInPlanAndApply(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		d := workingDir(t, configured(t, `
variable "tier" {
  type    = string
  default = null
}
variable "later" {
  type    = bool
  default = false
}
resource "terraform_data" "later" {
  input = { tier = var.later ? null : "front" }
}
resource "breakwater_pod_protector" "now" {
  namespace           = %[1]q
  name                = "now"
  selector            = { match_labels = { app = "web", tier = var.tier } }
  min_available       = "2"
  annotations         = { "example.com/owner" = var.tier }
  deletion_protection = false
}
resource "breakwater_pod_protector" "later" {
  namespace           = %[1]q
  name                = "later"
  selector            = { match_labels = { app = "web", tier = terraform_data.later.output.tier } }
  min_available       = "2"
  deletion_protection = false
}
`, namespace))
		d.Run("validate") // which knows no variables
		protectors := func() []string {
			made := &v1alpha1.PodProtectorList{}
			if err := testplane.Client(t).List(t.Context(), made, client.InNamespace(namespace)); err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, p := range made.Items {
				all = append(all, fmt.Sprint(p.Name, p.Spec.Selector.MatchLabels))
			}
			slices.Sort(all)
			return all
		}
		out, err := d.Try("plan")
		for _, want := range []string{`selector.match_labels["tier"] is null`, `annotations["example.com/owner"] is null`} {
			if err == nil || !matchWrapped(want).MatchString(out) {
				t.Errorf("plan does not report that %s: %v\n%s", want, err, out)
			}
		}
		d.Variables = []string{"TF_VAR_tier=front", "TF_VAR_later=true"}
		out, err = d.Try("apply", "-auto-approve", "-target=breakwater_pod_protector.later")
		if err == nil || !matchWrapped(`selector.match_labels["tier"] is null`).MatchString(out) || len(protectors()) > 0 {
			t.Errorf("apply of an element that is null then: %v, protectors %v\n%s", err, protectors(), out)
		}
		d.Variables = []string{"TF_VAR_tier=front"}
		d.Run("apply", "-auto-approve")
		if got := fmt.Sprint(protectors()); got != "[latermap[app:web tier:front] nowmap[app:web tier:front]]" {
			t.Errorf("protectors %s", got)
		}
	})
}
