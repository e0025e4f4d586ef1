// Command accounted runs the provider of Breakwater and appends to a file what it has used: its CPU time in ms and its peak memory in KiB, on
// one line for each process. Terraform starts this program in place of the provider.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

func main() {
	provider := exec.Command(os.Getenv("ACCOUNTED_PROVIDER"), os.Args[1:]...)
	provider.Stdin, provider.Stdout, provider.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := provider.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "accounted:", err)
		os.Exit(1)
	}
	used := provider.ProcessState.SysUsage().(*syscall.Rusage)
	file, err := os.OpenFile(os.Getenv("ACCOUNTED_FILE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		cpu := provider.ProcessState.UserTime() + provider.ProcessState.SystemTime()
		_, err = fmt.Fprintln(file, cpu.Milliseconds(), used.Maxrss)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "accounted:", err)
	}
	os.Exit(provider.ProcessState.ExitCode())
}
