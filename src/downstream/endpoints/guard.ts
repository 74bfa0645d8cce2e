import type { RequestContext } from '../../http/listener/request-context.ts';
import type { Logger } from '../../telemetry/logger.ts';

/** Work on a request that goes on after its handler: a defect in it is seen in the log and ends that request only. */
export function guard(context: RequestContext, logger: Logger, work: Promise<void> | undefined): void {
  work?.catch((error: unknown) => {
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    logger.error('request_failed', { path: context.path, reason });
    context.fail({ status: 500, code: 'internal', message: 'a defect of the gateway; its log has the details' });
  });
}
