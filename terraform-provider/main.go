// Command terraform-provider-breakwater is the Terraform provider of Breakwater.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/breakwater-k8s/breakwater/internal/version"
	"github.com/breakwater-k8s/breakwater/terraform-provider/provider"
)

func main() {
	debug := flag.Bool("debug", false, "print what a debugger's terraform needs to find this process, and serve until interrupted")
	flag.Parse()
	options := providerserver.ServeOpts{Address: "registry.terraform.io/" + provider.Source, Debug: *debug}
	if err := providerserver.Serve(context.Background(), provider.New(version.Version), options); err != nil {
		log.Fatal(err)
	}
}
