// Command terraform-provider-breakwater is the Terraform provider of Breakwater.
package main

import (
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
	"github.com/breakwater-k8s/breakwater/terraform-provider/provider"
)

func main() {
	debug := flag.Bool("debug", false, "print the environment variable that lets terraform attach to this process, and serve until interrupted")
	flag.Parse()
	var options []tf6server.ServeOpt
	if *debug {
		options = append(options, tf6server.WithManagedDebug())
	}
	if err := tf6server.Serve("registry.terraform.io/"+provider.Source, provider.Server(version.Version), options...); err != nil {
		log.Fatal(err)
	}
}
