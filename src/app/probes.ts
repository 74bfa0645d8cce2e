import type { Readiness } from '../control/schemas.ts';
import type { Listener } from '../http/listener/listener.ts';
import type { Upstreams } from '../model/ports.ts';
import { UP } from '../model/server-state.ts';

export interface ProbesDeps {
  readonly version: string;
  readonly readiness: () => Readiness;
  readonly upstreams: Upstreams;
}

/**
 * `/livez` (and `/healthz`): the event loop turns. `/readyz`: calls can be accepted; a dead server does not change
 * that, or one of them would take the whole gateway out of service. `/health`: counts for people, no names.
 */
export function registerProbes(listener: Listener, deps: ProbesDeps): void {
  const live = {
    GET: (context: { json(status: number, text: string): void }) => context.json(200, '{"status":"live"}'),
  };
  listener.routes.add('/livez', live);
  listener.routes.add('/healthz', live);
  listener.routes.add('/readyz', {
    GET: (context) => {
      const { ready, reason } = deps.readiness();
      if (ready) context.json(200, '{"status":"ready"}');
      else context.json(503, JSON.stringify({ status: 'not ready', reason }), ['Retry-After', '1']);
    },
  });
  listener.routes.add('/health', {
    GET: (context) => {
      const statuses = deps.upstreams.statuses();
      const up = statuses.filter(({ state }) => UP.has(state)).length;
      const { ready } = deps.readiness();
      const body = {
        status: ready ? 'ready' : 'not ready',
        version: deps.version,
        servers: { total: statuses.length, up },
      };
      context.json(ready ? 200 : 503, JSON.stringify(body));
    },
  });
}
