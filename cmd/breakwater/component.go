package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// componentFlags are the flags that all long-running components share.
type componentFlags struct {
	metricsAddress string
	metricsAuth    string
	healthAddress  string
	profileAddress string
	logLevel       slog.Level
	logFormat      string
}

func (f *componentFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.metricsAddress, "metrics-listen", ":8080", "`address` to serve Prometheus metrics on (/metrics); 0 disables it")
	flags.StringVar(&f.metricsAuth, "metrics-auth", "", "`kubeconfig` of the cluster that authenticates and authorizes clients of /metrics, or "+clusters.InCluster+
		": clients need a token, and permission to get the non-resource URL /metrics; enables TLS. Empty: any client may read metrics")
	flags.StringVar(&f.healthAddress, "health-listen", ":8081", "`address` to serve /healthz and /readyz on; 0 disables it")
	flags.StringVar(&f.profileAddress, "profile-listen", "0", "`address` to serve Go profiles on (/debug/pprof/); 0 disables it")
	flags.TextVar(&f.logLevel, "log-level", slog.LevelInfo, "lowest `level` to log: debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "json", "`format` of the log: json or text")
}

// logger creates the logger for these flags and installs it in controller-runtime and client-go.
func (f *componentFlags) logger(component string) (logr.Logger, error) {
	options := &slog.HandlerOptions{Level: f.logLevel}
	var handler slog.Handler
	switch f.logFormat {
	case "json":
		handler = slog.NewJSONHandler(redactor{os.Stderr}, options)
	case "text":
		handler = slog.NewTextHandler(redactor{os.Stderr}, options)
	default:
		return logr.Logger{}, fmt.Errorf("--log-format %q: want json or text", f.logFormat)
	}
	log := logr.FromSlogHandler(handler).WithName(component)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	return log, nil
}

// redactor removes caller tokens from a log. Each write is one record. The errors of an API server that cannot reach the webhook contain
// such tokens.
type redactor struct{ to io.Writer }

func (r redactor) Write(record []byte) (int, error) {
	if _, err := io.WriteString(r.to, webhookconfig.RedactCallerTokens(string(record))); err != nil {
		return 0, err
	}
	return len(record), nil
}
