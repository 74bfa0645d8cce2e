import { type ChildProcess, spawn } from 'node:child_process';
import { connect, type Socket } from 'node:net';

const LISTENER = `
const server = require('node:net').createServer();
server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => process.send(server.address().port));
process.on('disconnect', () => process.exit(0));`;

/**
 * A port that does not answer: its process is stopped and the queue of its socket is full, so that the kernel neither
 * accepts nor refuses a further connection.
 */
export class Blackhole {
  readonly port: number;
  readonly #child: ChildProcess;
  readonly #fillers: readonly Socket[];

  private constructor(port: number, child: ChildProcess, fillers: readonly Socket[]) {
    this.port = port;
    this.#child = child;
    this.#fillers = fillers;
  }

  static async open(): Promise<Blackhole> {
    const child = spawn(process.execPath, ['-e', LISTENER], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    const port = await new Promise<number>((resolve, reject) => {
      child.once('message', (message) => resolve(message as number));
      child.once('exit', (code) => reject(new Error(`the blackhole ended with ${code}`)));
    });
    child.kill('SIGSTOP');
    // More than a queue of length 1 holds; the kernel retries the others, which keeps the queue full.
    const fillers = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => {}));
    return new Blackhole(port, child, fillers);
  }

  close(): void {
    for (const socket of this.#fillers) socket.destroy();
    this.#child.kill('SIGKILL');
  }
}
