// Command terraform-provider-breakwater is the Terraform provider of Breakwater.
package main

import (
	"cmp"
	"flag"
	"log"
	"os"
	"runtime/debug"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
	"github.com/breakwater-k8s/breakwater/terraform-provider/provider"
)

func main() {
	attach := flag.Bool("debug", false, "print the environment variable that lets terraform attach to this process, and serve until interrupted")
	flag.Parse()
	var options []tf6server.ServeOpt
	if *attach {
		options = append(options, tf6server.WithManagedDebug())
	} else {
		silenceUnreadLogs()
	}
	collectLessOften()
	if err := tf6server.Serve("registry.terraform.io/"+provider.Source, provider.Server(version.Version), options...); err != nil {
		log.Fatal(err)
	}
}

// silenceUnreadLogs turns off logs that Terraform discards. Otherwise the framework writes about 100 lines of JSON for each resource of a plan, and
// Terraform parses them: a third of the CPU time of both.
func silenceUnreadLogs() {
	if cmp.Or(os.Getenv("TF_LOG_PROVIDER"), os.Getenv("TF_LOG")) != "" {
		return
	}
	for _, variable := range []string{"TF_LOG_PROVIDER", "TF_LOG_SDK", "TF_LOG_SDK_PROTO", "TF_LOG_SDK_FRAMEWORK"} {
		_ = os.Setenv(variable, cmp.Or(os.Getenv(variable), "OFF")) // a failure costs only time
	}
}

// collectLessOften lets the heap grow to five times of what is in use, which is little: 10 MiB, and the objects of a refresh. GOGC and GOMEMLIMIT
// take precedence.
func collectLessOften() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(128 << 20)
	}
}
