import { Empty, Failure, Loading } from '../parts/notes.tsx';
import { ServerStatus } from '../parts/status.tsx';
import { Table } from '../parts/table.tsx';
import { readServers, serverList, servers, serversError } from '../servers.ts';

export default function Overview() {
  if (serversError.value !== null) {
    return <Failure what="The servers could not be read" error={serversError.value} again={() => void readServers()} />;
  }
  if (servers.value === null) return <Loading what="servers" />;
  return (
    <>
      <h1>Overview</h1>
      <Table
        label="Servers"
        rows={serverList.value}
        keyOf={({ name }) => name}
        columns={[
          {
            id: 'name',
            title: 'Server',
            width: 'minmax(8rem, 1fr)',
            cell: ({ name }) => name,
            order: ({ name }) => name,
          },
          {
            id: 'state',
            title: 'State',
            width: 'minmax(8rem, 1fr)',
            cell: (server) => <ServerStatus server={server} />,
            order: ({ state }) => state,
          },
          {
            id: 'tools',
            title: 'Tools',
            width: '5rem',
            align: 'end',
            cell: ({ toolCount }) => toolCount,
            order: ({ toolCount }) => toolCount,
          },
          { id: 'reason', title: 'Why', width: 'minmax(8rem, 3fr)', wideOnly: true, cell: ({ reason }) => reason },
        ]}
        empty={
          <Empty title="No servers yet">
            <p>Add one to the file, or: trunkline add</p>
          </Empty>
        }
      />
    </>
  );
}
