// Command argo-look looks at an object as Argo CD does, by Argo CD's own code: its health, what actions it offers and what they
// do, and whether what is declared differs from what is there. It reads the object from standard input as JSON, and prints JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/argoproj/argo-cd/v3/util/lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	settings := flag.String("settings", "", "`file` of the ConfigMap argocd-cm, with health checks and actions")
	application := flag.String("application", "", "`file` of the Application whose ignoreDifferences count")
	parameters := map[string]string{}
	flag.Func("parameter", "`NAME=VALUE` of an action; may be repeated", func(text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("want NAME=VALUE")
		}
		parameters[name] = value
		return nil
	})
	kubeconfig := flag.String("kubeconfig", "", "`file` that leads to the cluster with the object that is there")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: argo-look [flags] health | actions | act NAME | diff  <OBJECT.json")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(flag.Args(), *settings, *application, *kubeconfig, parameters); err != nil {
		fmt.Fprintln(os.Stderr, "argo-look:", err)
		os.Exit(1)
	}
}

func run(arguments []string, settings, application, kubeconfig string, parameters map[string]string) error {
	raw, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fmt.Errorf("read the object: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return fmt.Errorf("read the object: %w", err)
	}
	overrides, err := readOverrides(settings)
	if err != nil {
		return err
	}
	var answer any
	switch {
	case len(arguments) == 1 && arguments[0] == "health":
		answer, err = lua.ResourceHealthOverrides(overrides).GetResourceHealth(object)
	case len(arguments) == 1 && arguments[0] == "actions":
		answer, err = offered(lua.VM{ResourceOverrides: overrides}, object)
	case len(arguments) == 2 && arguments[0] == "act":
		answer, err = act(lua.VM{ResourceOverrides: overrides}, object, arguments[1], parameters)
	case len(arguments) == 1 && arguments[0] == "diff":
		answer, err = differ(context.Background(), object, overrides, application, kubeconfig)
	default:
		flag.Usage()
		return fmt.Errorf("unknown arguments %q", arguments)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}
