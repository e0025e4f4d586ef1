package provider

import (
	"context"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// Server returns a constructor of protocol servers for a provider of the given version.
func Server(version string) func() tfprotov6.ProviderServer {
	return func() tfprotov6.ProviderServer { return newServer(newProvider(version)) }
}

func newServer(b *Breakwater) *server {
	full := providerserver.NewProtocol6(b)().(fullServer)
	s := &server{fullServer: full, schemas: readSchemas(full), kinds: map[string]*kind{}, cluster: b.cluster.Load}
	for _, k := range b.kinds {
		s.kinds["breakwater_"+k.name] = k
	}
	return s
}

// fullServer is the complete protocol that the framework implements.
type fullServer interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
	tfprotov6.ActionServer
	tfprotov6.StateStoreServer
}

// server is the framework's server, adapted to OpenTofu. It also rejects null elements, which the framework accepts.
type server struct {
	fullServer
	schemas func() schemas
	// kinds are the kinds by the names of their resources.
	kinds map[string]*kind
	// cluster returns the configured cluster; nil if there is none yet.
	cluster func() *cluster
}

// CallFunction replaces a missing argument by null. OpenTofu, up to 1.12 at least, sends null as a missing argument, which the
// framework rejects.
func (s *server) CallFunction(ctx context.Context, req *tfprotov6.CallFunctionRequest) (*tfprotov6.CallFunctionResponse, error) {
	said := *req
	said.Arguments = slices.Clone(req.Arguments)
	for i, argument := range said.Arguments {
		if argument == nil || len(argument.MsgPack) == 0 && len(argument.JSON) == 0 {
			said.Arguments[i] = &tfprotov6.DynamicValue{JSON: []byte("null")}
		}
	}
	return s.fullServer.CallFunction(ctx, &said)
}

// schemas are the schemas of a server, and the types of its resources, which decode the values of the protocol.
type schemas struct {
	*tfprotov6.GetProviderSchemaResponse
	types map[string]tftypes.Type
}

// readSchemas returns a function with the schemas of a server, which do not change while it runs.
func readSchemas(server tfprotov6.ProviderServer) func() schemas {
	return sync.OnceValue(func() schemas {
		all, err := server.GetProviderSchema(context.Background(), &tfprotov6.GetProviderSchemaRequest{})
		if err != nil {
			panic("provider: the framework has no schemas: " + err.Error())
		}
		types := make(map[string]tftypes.Type, len(all.ResourceSchemas))
		for name, schema := range all.ResourceSchemas {
			types[name] = schema.ValueType()
		}
		return schemas{all, types}
	})
}

// rejectNullElements returns an error for each null element of the maps, lists and sets in the first of some values of a type that has any.
// Whatever the schemas have, it finds them before any other code of the provider sees the values. It does nothing if the type is nil: the
// framework reports a type that does not exist.
func rejectNullElements(of tftypes.Type, values ...*tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
	if of == nil {
		return nil, nil
	}
	for _, encoded := range values {
		if encoded == nil {
			continue
		}
		v, err := encoded.Unmarshal(of)
		if err != nil {
			return nil, err
		}
		found, err := shape.NullElements(v)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			return nullElementErrors(found), nil
		}
	}
	return nil, nil
}

func nullElementErrors(found []shape.NullElement) []*tfprotov6.Diagnostic {
	all := make([]*tfprotov6.Diagnostic, len(found))
	for i, one := range found {
		all[i] = &tfprotov6.Diagnostic{
			Severity: tfprotov6.DiagnosticSeverityError, Summary: "An element is null", Attribute: one.Attribute,
			Detail: one.Text + " is null, but the API has no such elements, and an object without it could protect other pods than the plan shows. Set a " +
				"value, or leave the element out, with an expression such as { for k, v in var.labels : k => v if v != null }.",
		}
	}
	return all
}

// GetProviderSchema returns the schemas, which are computed once.
func (s *server) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return s.schemas().GetProviderSchemaResponse, nil
}

// ValidateProviderConfig rejects null elements of maps, lists and sets.
func (s *server) ValidateProviderConfig(ctx context.Context, req *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	if found, err := rejectNullElements(s.schemas().Provider.ValueType(), req.Config); err != nil || len(found) > 0 {
		return &tfprotov6.ValidateProviderConfigResponse{Diagnostics: found}, err
	}
	return s.fullServer.ValidateProviderConfig(ctx, req)
}

// ValidateResourceConfig rejects null elements of maps, lists and sets. Terraform asks for it in validate, in a plan, and again in the apply
// once the values are known.
func (s *server) ValidateResourceConfig(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	if found, err := rejectNullElements(s.schemas().types[req.TypeName], req.Config); err != nil || len(found) > 0 {
		return &tfprotov6.ValidateResourceConfigResponse{Diagnostics: found}, err
	}
	return s.fullServer.ValidateResourceConfig(ctx, req)
}

// ApplyResourceChange rejects null elements of maps, lists and sets before anything is written, whatever the client validated. The state
// stays as it is.
func (s *server) ApplyResourceChange(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	if found, err := rejectNullElements(s.schemas().types[req.TypeName], req.PlannedState, req.Config); err != nil || len(found) > 0 {
		return &tfprotov6.ApplyResourceChangeResponse{
			Diagnostics: found, NewState: req.PriorState, Private: req.PlannedPrivate, NewIdentity: req.PlannedIdentity,
		}, err
	}
	return s.fullServer.ApplyResourceChange(ctx, req)
}
