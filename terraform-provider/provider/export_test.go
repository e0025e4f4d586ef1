package provider

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// ServerWithPatience returns a protocol server for a provider whose clusters may be unreachable for the given time only.
func ServerWithPatience(patience time.Duration) (tfprotov6.ProviderServer, error) {
	b, _ := New("test")().(*Breakwater)
	b.patience = patience
	return &server{providerserver.NewProtocol6(b)().(fullServer)}, nil
}
