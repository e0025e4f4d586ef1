package port_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
)

// claimsEnv turns the test binary into a process that claims this many ports, prints them, and keeps them until its input ends.
const claimsEnv = "BREAKWATER_TEST_CLAIMS"

func TestMain(m *testing.M) {
	if count := os.Getenv(claimsEnv); count != "" {
		if err := runClaimer(count); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runClaimer(count string) error {
	wanted, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	kept := make([]*port.Claim, wanted)
	for n := range kept {
		if kept[n], err = port.NewClaim(); err != nil {
			return err
		}
		fmt.Println(kept[n].Number())
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	for _, c := range kept {
		c.Release()
	}
	return err
}

func TestProcessesNeverClaimTheSamePort(t *testing.T) {
	const processes, each = 8, 150
	owners := map[int]int{}
	var mu sync.Mutex
	var claiming sync.WaitGroup
	for process := range processes {
		claimed := startClaimer(t, each)
		claiming.Go(func() {
			for range each {
				number, ok := <-claimed
				mu.Lock()
				if other, taken := owners[number]; !ok || taken {
					t.Errorf("process %d claimed port %d (%t), which process %d holds", process, number, ok, other)
				}
				owners[number] = process
				mu.Unlock()
			}
		})
	}
	claiming.Wait()
}

// startClaimer starts a process that claims ports until the test ends, and returns their numbers.
func startClaimer(t *testing.T, count int) <-chan int {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env, command.Stderr = append(os.Environ(), claimsEnv+"="+strconv.Itoa(count)), os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	numbers, read := make(chan int), make(chan struct{})
	go func() {
		defer close(read)
		defer close(numbers)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			number, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
			if err != nil {
				t.Errorf("the claiming process printed %q", lines.Text())
				return
			}
			numbers <- number
		}
	}()
	t.Cleanup(func() {
		_ = input.Close() // which ends the process
		for range numbers {
		}
		<-read
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	})
	return numbers
}

func TestClaimedPortIsFreeForItsServer(t *testing.T) {
	c, err := port.NewClaim()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time after a restart of the server
		listener, err := net.Listen("tcp", c.Address())
		if err != nil {
			t.Fatal(err)
		}
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	}
	c.Release()
	sign, err := net.ListenPacket("udp4", c.Address())
	if err != nil {
		t.Fatalf("claim a released port: %v", err)
	}
	_ = sign.Close()
}
