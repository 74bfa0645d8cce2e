import type { Socket } from 'node:net';

/** Longer messages are written in the parts they have. */
const OUTBOX_BYTES = 16 * 1024;

/** One for the process, because the kernel takes a small message at once; replaced when it did not. */
let outbox = Buffer.allocUnsafeSlow(OUTBOX_BYTES);

/** Writes a head, in latin1, and what follows it in one go. A small message costs one buffer that is there already. */
export function writeWhole(socket: Socket, head: string, parts: readonly Buffer[], partsBytes: number): void {
  const total = head.length + partsBytes;
  if (total <= OUTBOX_BYTES) {
    // What TLS is given it may keep for a while.
    const target = 'encrypted' in socket ? Buffer.allocUnsafe(total) : outbox;
    let at = target.write(head, 0, 'latin1');
    for (const part of parts) at += part.copy(target, at);
    socket.write(target.subarray(0, at));
    if (target === outbox && socket.writableLength > 0) outbox = Buffer.allocUnsafeSlow(OUTBOX_BYTES);
    return;
  }
  socket.cork();
  socket.write(head, 'latin1');
  for (const part of parts) socket.write(part);
  socket.uncork();
}
