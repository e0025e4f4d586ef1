// Package port reserves TCP ports of the loopback interface for servers that are started with a port number.
package port

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Host is the only interface that a federation uses.
const Host = "127.0.0.1"

// Reservation holds a port. It is a socket that is bound and never listens: the kernel gives the port to no other
// process, refuses connections to it, and lets sockets of the same user that set SO_REUSEPORT listen on it, which
// the components of a control plane can do. So there is no moment at which another process could take the
// port, neither before a server starts nor while it is restarted.
type Reservation struct {
	socket *os.File
	number int
}

// Reserve reserves a free port.
func Reserve() (*Reservation, error) {
	// A process that is forked between socket and close-on-exec would inherit the socket and keep the port.
	syscall.ForkLock.RLock()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", os.NewSyscallError("socket", err))
	}
	number, err := bind(fd)
	if err != nil {
		_ = unix.Close(fd) // the error of bind is the one to report
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	return &Reservation{socket: os.NewFile(uintptr(fd), "port "+strconv.Itoa(number)), number: number}, nil
}

func bind(fd int) (int, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	return address.(*unix.SockaddrInet4).Port, nil
}

// Number returns the port's number.
func (r *Reservation) Number() int { return r.number }

// Address returns host:port.
func (r *Reservation) Address() string { return net.JoinHostPort(Host, strconv.Itoa(r.number)) }

// Listen listens on the reserved port. Closing the listener does not release the port.
func (r *Reservation) Listen(ctx context.Context) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if controlErr := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}); controlErr != nil {
			return controlErr
		}
		return err
	}}
	return config.Listen(ctx, "tcp4", r.Address())
}

// Release releases the port.
func (r *Reservation) Release() error { return r.socket.Close() }
