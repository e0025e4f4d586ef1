package local_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// parentVariable turns the test binary into a program that starts a federation and exits as the variable says.
const parentVariable = "BREAKWATER_TEST_PARENT"

const folderVariable = "BREAKWATER_TEST_FOLDER"

// runParent starts a federation, reports it, and exits without Stop.
func runParent(ending string) {
	topology, err := federation.Embedded("single")
	if err == nil {
		_, err = local.Start(context.Background(), topology, local.Options{
			Binaries: binaries(), Dir: os.Getenv(folderVariable), Log: logr.Discard(), WithoutControllers: true,
		})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("usable")
	switch ending {
	case "panic":
		panic("as the test asks")
	case "exit":
		os.Exit(3)
	default:
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test kills this process
	}
}

func TestNoProcessIsLeftAfterTheProgramExits(t *testing.T) {
	for _, ending := range []string{"panic", "exit", "kill"} {
		t.Run(ending, func(t *testing.T) {
			folder := t.TempDir()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), parentVariable+"="+ending, folderVariable+"="+folder)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stdin.Close() }()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(out)
			if line, err := lines.ReadString('\n'); strings.TrimSpace(line) != "usable" {
				rest, _ := io.ReadAll(lines)
				t.Fatalf("the federation did not start: %s%s (%v, %v)", line, rest, err, cmd.Wait())
			}
			state, err := local.ReadState(folder)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(state.Clusters[0].Components); got != 2 {
				t.Fatalf("the state has %d components, want etcd and kube-apiserver: %+v", got, state)
			}
			if ending == "kill" {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); err == nil {
				t.Fatal("the program exited with code 0, want a failure")
			}
			eventually(t, "all components end", func(context.Context) error { return checkAllExited(state) })
		})
	}
}

// checkAllExited returns an error with the components that still run.
func checkAllExited(state *local.State) error {
	for _, cluster := range state.Clusters {
		for _, component := range cluster.Components {
			if status := component.Process.Status(); status != local.Gone {
				return fmt.Errorf("%s of %s, pid %d, is %s", component.Name, cluster.Name, component.Process.PID, status)
			}
		}
	}
	return nil
}
