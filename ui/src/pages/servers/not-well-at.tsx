import type { Server } from '../../api/operations.ts';
import { Status, toneOf } from '../../parts/status.tsx';
import { observed } from '../../servers.ts';

/** The nodes where the server is in another state than the one that is shown, and not well. */
export function NotWellAt({ server: { name, state } }: { readonly server: Server }) {
  const others = observed.value.filter(
    (one) => one.server === name && one.node !== null && one.state !== state && ['bad', 'warn'].includes(toneOf(one)),
  );
  return (
    <>
      {others.map((one) => (
        <span key={one.node}>
          {' '}
          <Status tone={toneOf(one)} text={`${one.state.replaceAll('_', ' ')} at ${one.node}`} />
        </span>
      ))}
    </>
  );
}
