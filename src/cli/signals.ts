import type { App } from '../app/app.ts';
import { EXIT, type ExitCode } from './exit-code.ts';

/** Drain time after an uncaught error: enough for calls to finish, short enough for a supervisor to restart us soon (F42). */
const CRASH_DRAIN_MS = 5_000;

/**
 * Resolves with the exit code when the gateway has stopped. SIGTERM drains (F33); a second SIGTERM cuts the drain short. Ctrl-C
 * stops at once if no call is in flight and drains otherwise; a second Ctrl-C does not wait. After an uncaught error the process
 * state is unknown: the gateway logs it, fails readiness, drains for five seconds and exits with 70. `unused` removes the
 * listeners of an app that was closed before it ran.
 */
export function untilStopped(app: App, unused?: AbortSignal): Promise<ExitCode> {
  const { logger } = app.components;
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
    const on = (event: NodeJS.Signals | 'uncaughtException', listener: (...given: never[]) => void): void => {
      process.on(event as NodeJS.Signals, listener as () => void);
      unused?.addEventListener('abort', () => process.off(event, listener as () => void));
    };
    const { cluster } = app.components;
    cluster?.listen({ drainAsked: () => end(app.drain(), EXIT.ok) });
    app.stopProcess = (now) => end(now ? app.stopNow() : app.drain(), EXIT.ok);
    on('SIGTERM', () => end(sigterms++ === 0 ? app.drain() : app.stopNow(), EXIT.ok));
    on('SIGINT', () => {
      interrupts++;
      if (interrupts === 1 && app.components.downstream.inFlight > 0) end(app.drain(), EXIT.ok);
      else end(app.close('interrupt'), EXIT.ok);
    });
    on('SIGHUP', () => void app.reload());
    // The error boundary of a server handles an error that its work throws.
    on('uncaughtException', (error: unknown, origin: string) => {
      if (app.components.upstreams.inServerContext) return;
      logger.error('crash', {
        cause: origin === 'unhandledRejection' ? 'unhandled rejection' : 'uncaught exception',
        error: error instanceof Error ? { message: error.message, stack: error.stack } : String(error),
      });
      end(app.drain(CRASH_DRAIN_MS), EXIT.internal);
    });
  });
}
