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

// parentVariable makes the test binary a program that starts a federation and ends in the way it names.
const parentVariable = "BREAKWATER_TEST_PARENT"

const folderVariable = "BREAKWATER_TEST_FOLDER"

// beParent starts a federation, says so, and ends without Stop.
func beParent(how string) {
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
	switch how {
	case "panic":
		panic("as the test asks")
	case "exit":
		os.Exit(3)
	default:
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test kills us
	}
}

func TestNothingIsLeftAfterTheProgramEnds(t *testing.T) {
	for _, how := range []string{"panic", "exit", "kill"} {
		t.Run(how, func(t *testing.T) {
			folder := t.TempDir()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), parentVariable+"="+how, folderVariable+"="+folder)
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
				t.Fatalf("%d components are recorded, want etcd and kube-apiserver: %+v", got, state)
			}
			if how == "kill" {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); err == nil {
				t.Fatal("the program ended well, want a failure")
			}
			eventually(t, "all components end", func(context.Context) error { return allGone(state) })
		})
	}
}

// allGone lists the components that still run.
func allGone(state *local.State) error {
	for _, cluster := range state.Clusters {
		for _, component := range cluster.Components {
			if status := component.Process.Status(); status != local.Gone {
				return fmt.Errorf("%s of %s, pid %d, is %s", component.Name, cluster.Name, component.Process.PID, status)
			}
		}
	}
	return nil
}
