import type { AccessPlane } from '../../control/control-plane.ts';
import { ANONYMOUS, type ClientProfile, OPERATOR, type Principal } from '../../model/client-profile.ts';
import type { Components } from '../components.ts';
import { operatorProfile } from '../operator.ts';

/** Returns which callers of the configuration may use what on this gateway, as the policies of calls decide it. */
export function accessPlane({
  gateway,
  authenticator,
  registry,
  operator,
}: Pick<Components, 'gateway' | 'authenticator' | 'registry' | 'operator'>): AccessPlane {
  const principal = (id: string): Principal | null => (id === OPERATOR.id ? OPERATOR : authenticator.principal(id));
  const profile = (one: Principal): ClientProfile => operatorProfile(operator.profile.info ?? '{}', one);
  return {
    table() {
      const { agents } = registry.state;
      const servers = gateway.access.offered(operator.profile);
      const ids = [ANONYMOUS.id, ...Array.from(agents.keys(), (name) => `agent:${name}`)];
      const callers = ids.flatMap((id) => principal(id) ?? []);
      return {
        unknownCallers: principal(ANONYMOUS.id) === null ? 'refuse' : 'allow',
        servers,
        callers: callers.map((caller) => ({
          principal: caller.id,
          name: caller.name,
          variable: agents.get(caller.name)?.variable ?? null,
          servers: gateway.access.of(profile(caller), servers),
        })),
      };
    },
    explain(id, server, tool) {
      const caller = principal(id);
      return caller === null ? null : gateway.access.explain(server, tool, profile(caller));
    },
  };
}
