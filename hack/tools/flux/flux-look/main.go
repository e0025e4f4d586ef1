// Command flux-look says what Flux takes an object's health for: by kstatus, which it waits by if nothing else is said, and by
// the healthCheckExprs of a Kustomization or HelmRelease. It reads the object from standard input as JSON, and prints JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// health is what both say: InProgress, Current, Failed, Terminating; Unknown where an expression cannot be evaluated, which
// Flux waits through.
type health struct {
	Kstatus     status.Status `json:"kstatus"`
	Expressions status.Status `json:"expressions"`
}

func main() {
	expressions := flag.String("expressions", "", "the healthCheckExprs, as `JSON` of one of them")
	flag.Parse()
	if err := run(*expressions); err != nil {
		fmt.Fprintln(os.Stderr, "flux-look:", err)
		os.Exit(1)
	}
}

func run(expressions string) error {
	raw, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fmt.Errorf("read the object: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return fmt.Errorf("read the object: %w", err)
	}
	by, err := status.Compute(object)
	if err != nil {
		return fmt.Errorf("compute its status: %w", err)
	}
	check := kustomize.CustomHealthCheck{}
	if err := json.Unmarshal([]byte(expressions), &check); err != nil {
		return fmt.Errorf("read the expressions: %w", err)
	}
	evaluator, err := cel.NewStatusEvaluator(&check.HealthCheckExpressions)
	if err != nil {
		return fmt.Errorf("read the expressions: %w", err)
	}
	answer := health{Kstatus: by.Status, Expressions: status.UnknownStatus}
	if result, err := evaluator.Evaluate(context.Background(), object); err == nil {
		answer.Expressions = result.Status
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}
