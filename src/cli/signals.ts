import type { App } from '../app/app.ts';
import { EXIT, type ExitCode } from './exit-code.ts';

/** After a defect: long enough for calls to end, short enough that a supervisor restarts us soon (F42). */
const CRASH_DRAIN_MS = 5_000;

/**
 * Resolves with the exit code when the gateway has ended. SIGTERM drains (F33); a second one cuts that short. Ctrl-C ends at
 * once when nothing is in flight and drains otherwise; a second one does not wait. An uncaught error is logged,
 * readiness fails, calls get five seconds, and the process ends with 70: it cannot know what state it is in.
 */
export function untilStopped(app: App): Promise<ExitCode> {
  const { logger } = app.rooms;
  return new Promise((resolve) => {
    let interrupts = 0;
    let sigterms = 0;
    const end = (work: Promise<void>, code: ExitCode): void => {
      work.then(
        () => resolve(code),
        (error: unknown) => {
          logger.error('stop_failed', { error });
          resolve(EXIT.internal);
        },
      );
    };
    const { cluster } = app.rooms;
    cluster?.listen({ drainAsked: () => end(app.drain(), EXIT.ok) });
    app.stopProcess = (now) => end(now ? app.hurry() : app.drain(), EXIT.ok);
    process.on('SIGTERM', () => end(sigterms++ === 0 ? app.drain() : app.hurry(), EXIT.ok));
    process.on('SIGINT', () => {
      interrupts++;
      if (interrupts === 1 && app.rooms.downstream.inFlight > 0) end(app.drain(), EXIT.ok);
      else end(app.close('interrupt'), EXIT.ok);
    });
    process.on('SIGHUP', () => void app.reload());
    // One of the work for a server is that server's, and handled.
    process.on('uncaughtException', (error: unknown, origin) => {
      if (app.rooms.upstreams.atWork) return;
      logger.error('crash', {
        cause: origin === 'unhandledRejection' ? 'unhandled rejection' : 'uncaught exception',
        error: error instanceof Error ? { message: error.message, stack: error.stack } : String(error),
      });
      end(app.drain(CRASH_DRAIN_MS), EXIT.internal);
    });
  });
}
