"""What tests of UDP share: checks of figures against figures."""

import figures

LOSS = ("jitter_ms", "lost_packets", "packets", "lost_percent")


class Case(figures.Case):
    """A test that runs UDP clients and servers and looks at what they leave."""

    def check_loss(self, row):
        """Check the loss figures of an object."""
        self.assertGreaterEqual(row["lost_packets"], 0)
        self.assertGreaterEqual(row["packets"], 0)
        self.assertGreaterEqual(row["jitter_ms"], 0.0)
        self.assertLess(row["jitter_ms"], 1000.0)
        self.assertGreaterEqual(row["lost_percent"], 0)
        self.assertLessEqual(row["lost_percent"], 100)

    def check_udp(self, document, plain=True):
        """Check one document of ours, of either end, for contradictions.

        plain: nothing came twice, nor late over a border of the omitted part.
        """
        self.assertEqual(list(document)[:3], ["start", "intervals", "end"])
        self.assertNotIn("error", document)
        start, end = document["start"], document["end"]
        setup = start["test_start"]
        self.assertEqual(setup["protocol"], "UDP")
        server = "accepted_connection" in start
        count = setup["num_streams"] * (1 + setup["bidir"])
        numbers = [2 * each + 4 for each in range(count)]
        if server:
            numbers[0] = 5
        self.assertEqual([each["socket"] for each in start["connected"]], numbers)
        senders = [bool(setup["reverse"]) == server] * setup["num_streams"]
        sums = [("", slice(0, setup["num_streams"]))]
        if setup["bidir"]:
            senders = [not server] * setup["num_streams"] + [server] * setup["num_streams"]
            sums.append(("_bidir_reverse", slice(setup["num_streams"], None)))
        length = setup["blksize"]
        measured = self._check_udp_intervals(document["intervals"], numbers, senders, sums,
                                             length)
        self._check_udp_end(end, numbers, senders, sums, measured, length, server, plain)

    def _check_udp_intervals(self, intervals, numbers, senders, sums, length):
        """Check that intervals follow each other and sum up; returns each stream's figures."""
        measured = [{"bytes": 0, "packets": 0, "lost_packets": 0} for _ in numbers]
        before = None
        for interval in intervals:
            self.assertEqual(list(interval), ["streams"] + ["sum" + name for name, _ in sums])
            rows = interval["streams"]
            self.assertEqual([row["socket"] for row in rows], numbers)
            self.assertEqual([row["sender"] for row in rows], senders)
            for at, row in enumerate(rows):
                more = ("packets",) if row["sender"] else LOSS
                self.assertEqual(tuple(row), ("socket",) + figures.TIMES + more + (
                    "omitted", "sender"))
                begin = 0
                if before is not None and before[at]["omitted"] == row["omitted"]:
                    begin = before[at]["end"]
                self.assertEqual(row["start"], begin, "intervals do not join")
                self.check_rate(row, row["seconds"])
                if row["sender"]:
                    self.assertEqual(row["bytes"], row["packets"] * length)
                else:
                    self.check_loss(row)
                if not row["omitted"]:
                    for key in measured[at]:
                        measured[at][key] += row.get(key, 0)
            for name, part in sums:
                total, group = interval["sum" + name], rows[part]
                self.assertEqual(tuple(total), tuple(group[0])[1:])
                for key in ("bytes", "packets") + (() if group[0]["sender"] else (
                        "lost_packets",)):
                    self.assertEqual(total[key], sum(row[key] for row in group))
                self.check_rate(total, total["seconds"])
            before = rows
        return measured

    def _check_udp_end(self, end, numbers, senders, sums, measured, length, server, plain):
        names = ["streams"]
        rows = [each["udp"] for each in end["streams"]]
        self.assertEqual([row["socket"] for row in rows], numbers)
        self.assertEqual([row["sender"] for row in rows], senders)
        for row, counted in zip(rows, measured):
            self.assertEqual(tuple(row), ("socket",) + figures.TIMES + LOSS + (
                "out_of_order", "sender"))
            self.check_loss(row)
            self.check_rate(row, row["seconds"])
            if row["sender"]:
                self.assertEqual((row["bytes"], row["packets"]),
                                 (counted["bytes"], counted["packets"]),
                                 "intervals do not add up to the total")
                self.assertEqual(row["bytes"], row["packets"] * length)
        for name, part in sums:
            names += ["sum" + name, "sum_sent" + name, "sum_received" + name]
            group = rows[part]
            whole, sent, received = [end[key + name] for key in (
                "sum", "sum_sent", "sum_received")]
            for total in (whole, sent, received):
                self.assertEqual(tuple(total), figures.TIMES + LOSS + ("sender",))
                self.check_loss(total)
            sends = group[0]["sender"]
            self.assertEqual((whole["sender"], sent["sender"], received["sender"]),
                             (sends, True, False))
            self.check_rate(sent, sent["seconds"])
            self.check_rate(received, received["seconds"])
            self.assertEqual((sent["jitter_ms"], sent["lost_packets"], sent["lost_percent"]),
                             (0, 0, 0))
            for total in (whole, received):
                self.assertEqual(total["lost_packets"], sum(row["lost_packets"] for row in group))
            if not (server and not sends):
                self.assertEqual(sent["packets"], sum(row["packets"] for row in group))
                self.assertEqual(sent["bytes"], sent["packets"] * length)
            if not sends:
                counts = measured[part]
                for key in ("bytes", "packets"):
                    self.assertEqual(received[key], sum(each[key] for each in counts),
                                     "intervals do not add up to the total")
            if plain and (not server or not sends):
                self.assertEqual(received["bytes"],
                                 (received["packets"] - received["lost_packets"]) * length)
        names.append("cpu_utilization_percent")
        self.assertEqual([name for name in end if name != "pyperf3"][:len(names)], names)
        self.assertGreaterEqual(min(end["cpu_utilization_percent"].values()), 0)

    def check_udp_pair(self, client, server, whole=True, plain=True):
        """Check both documents of a test of ours.

        whole: nothing was lost, nor omitted; plain: as for check_udp().
        """
        self.check_udp(client, plain)
        self.check_udp(server, plain)
        self.check_addresses(client, server)
        self.check_udp_views(client, server, whole)

    def check_addresses(self, client, server):
        """Check that both ends name the same connections: there is no relay between them."""
        theirs = {each["remote_port"]: each for each in server["start"]["connected"]}
        self.assertEqual(len(client["start"]["connected"]), len(theirs))
        for mine in client["start"]["connected"]:
            other = theirs[mine["local_port"]]
            self.assertEqual((mine["local_host"], mine["remote_host"], mine["remote_port"]),
                             (other["remote_host"], other["local_host"], other["local_port"]))

    def check_udp_views(self, client, server, whole=True):
        """Check what both ends say of one test, whoever they are."""
        self.assertEqual(client["start"]["cookie"], server["start"]["cookie"])
        mine, other = client["start"]["test_start"], server["start"]["test_start"]
        names = set(mine).intersection(other) - {"interval"}
        self.assertEqual({name: mine[name] for name in names},
                         {name: other[name] for name in names})
        length = mine["blksize"]
        for suffix in ("", "_bidir_reverse"):
            if "sum_sent" + suffix not in client["end"]:
                continue
            ours = client["end"]
            sent, received = ours["sum_sent" + suffix], ours["sum_received" + suffix]
            forward = ours["sum" + suffix]["sender"]
            key = "sum_received" if forward else "sum_sent"
            half = server["end"][key + suffix]
            for name in ("bytes", "packets"):
                self.assertEqual(ours[key + suffix][name], half[name])
            if forward:
                self.assertEqual(received["lost_packets"], half["lost_packets"])
            if mine["omit"]:
                continue  # each end begins to measure by its own clock
            self.assertLessEqual(received["packets"], sent["packets"])
            if whole:
                self.assertEqual(received["lost_packets"], 0)
                self.assertEqual(received["bytes"], received["packets"] * length)
            if whole and forward:
                self.assertEqual((sent["bytes"], sent["packets"]),
                                 (received["bytes"], received["packets"]))

    def udp(self, client_arguments=(), server_arguments=(), whole=True, plain=True, **more):
        """Run a UDP pair with -J on both sides; returns both documents, whose figures agree."""
        client, server = self.pair(("-u", "-J") + tuple(client_arguments),
                                   ("-J",) + tuple(server_arguments), **more)
        documents = client.json(), server.json()
        self.check_udp_pair(documents[0], documents[1], whole, plain)
        return documents


def drops(document):
    """Return (host_dropped_packets, remote_dropped_packets) of a document, None for none."""
    found = document["end"].get("pyperf3", {})
    return found.get("host_dropped_packets"), found.get("remote_dropped_packets")
