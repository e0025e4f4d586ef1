package provider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// Server returns a constructor of protocol servers for a provider of the given version.
func Server(version string) func() tfprotov6.ProviderServer {
	return func() tfprotov6.ProviderServer { return newServer(New(version)()) }
}

func newServer(p provider.Provider) *server {
	full := providerserver.NewProtocol6(p)().(fullServer)
	s := &server{fullServer: full, schemas: &schemas{server: full}, kinds: map[string]*kind{}}
	if b, ok := p.(*Breakwater); ok {
		s.cluster = b.cluster.Load
		for _, k := range b.kinds {
			s.kinds["breakwater_"+k.name] = k
		}
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
	schemas *schemas
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
