package provider

import (
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// ServerWithPatience returns a protocol server for a provider whose clusters may be unreachable for the given time only.
func ServerWithPatience(patience time.Duration) (tfprotov6.ProviderServer, error) {
	b := newProvider("test")
	b.patience = patience
	return newServer(b), nil
}

// FrameworkOf returns the framework's server, which answers requests that the provider's server does not answer itself.
func FrameworkOf(s tfprotov6.ProviderServer) tfprotov6.ProviderServer {
	return s.(*server).fullServer
}
