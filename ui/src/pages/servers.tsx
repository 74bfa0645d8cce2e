import { useSignal } from '@preact/signals';
import type { Server } from '../api/operations.ts';
import { NotAnswered, Unread } from '../parts/notes.tsx';
import { ServerStatus } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { href, navigate, route, setQuery } from '../router.ts';
import { readInstances, serverList, servers, serversReader, silentNodes } from '../servers.ts';
import { AddServer } from './servers/add-server.tsx';
import { NotWellAt } from './servers/not-well-at.tsx';
import { ServerDetail } from './servers/server-detail.tsx';
import './servers/servers.css';

const COLUMNS: readonly Column<Server>[] = [
  {
    id: 'name',
    title: 'Server',
    width: 'minmax(7rem, 1fr)',
    cell: ({ name }) => <a href={href(['servers', name])}>{name}</a>,
    order: ({ name }) => name,
  },
  {
    id: 'state',
    title: 'State',
    width: 'minmax(8rem, 1fr)',
    cell: (server) => (
      <>
        <ServerStatus server={server} />
        <NotWellAt server={server} />
      </>
    ),
    order: ({ state }) => state,
  },
  {
    id: 'transport',
    title: 'Transport',
    width: '6rem',
    wideOnly: true,
    cell: ({ transport }) => transport,
    order: ({ transport }) => transport,
  },
  {
    id: 'tools',
    title: 'Tools',
    width: '4rem',
    align: 'end',
    cell: ({ toolCount }) => toolCount,
    order: ({ toolCount }) => toolCount,
  },
  {
    id: 'restarts',
    title: 'Restarts',
    width: '5rem',
    align: 'end',
    wideOnly: true,
    cell: ({ restarts }) => restarts,
    order: ({ restarts }) => restarts,
  },
  { id: 'reason', title: 'Why', width: 'minmax(8rem, 3fr)', wideOnly: true, cell: ({ reason }) => reason },
];

/** All servers; `#/servers/<name>`: one of them; `#/servers?add=1`: the form that adds one. */
export default function Servers() {
  const { rest, query } = route.value;
  const filter = useSignal(query.get('filter') ?? '');
  if (servers.value === null) return <Unread of={serversReader} what="servers" />;
  const [name] = rest;
  if (name !== undefined) return <ServerDetail key={name} name={name} />;
  if (query.get('add') === '1') return <AddServer />;
  const wanted = filter.value.toLowerCase();
  const rows = serverList.value.filter((server) =>
    [server.name, server.state, server.transport].some((text) => text.toLowerCase().includes(wanted)),
  );
  return (
    <>
      <h1>Servers</h1>
      <div class="toolbar">
        <input
          type="search"
          aria-label="Filter servers"
          placeholder="Name, state or transport"
          value={filter.value}
          onInput={(event) => {
            filter.value = event.currentTarget.value;
            setQuery({ filter: filter.value });
          }}
        />
        <button type="button" class="main" onClick={() => navigate(['servers'], { add: '1' })}>
          Add a server
        </button>
      </div>
      <NotAnswered nodes={silentNodes.value} again={() => void readInstances()} />
      <Table
        label="Servers"
        rows={rows}
        columns={COLUMNS}
        keyOf={(server) => server.name}
        onOpen={(server) => navigate(['servers', server.name])}
        empty={<p>{serverList.value.length === 0 ? 'There is no server yet.' : 'No server fits the filter.'}</p>}
      />
    </>
  );
}
