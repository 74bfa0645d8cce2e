import type { Socket } from 'node:net';

/** How long a connection that is being closed may stay open for its last answer to arrive. */
const LINGER_MS = 1_000;

/** Destroys a socket that has got its last answer, if it does not close by itself in time. */
export function destroyLater(socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  timer.unref();
  socket.once('close', () => clearTimeout(timer));
}
